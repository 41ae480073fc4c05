//! The arguments of `acquire.lua`: an attempt.

use std::{sync::LazyLock, time::Duration};

use lock_core::{FencingToken, Mode, OwnerId, OwnerLabel, Request};

use super::{
    arguments::{Arguments, millis},
    epoch::Layout,
    script::Script,
};

/// `KEYS`: those of [`Keys::of`](crate::keys::Keys::of).
pub(crate) static ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("acquire.lua"), Layout::Packed));

/// The arguments of `acquire.lua`.
pub(crate) struct Acquire<'a> {
    owner: OwnerId,
    lease: Duration,
    label: &'a OwnerLabel,
    mode: Mode,
    floor: FencingToken,
    /// Empty if no queue entry is wanted.
    channel: &'a str,
}

impl<'a> Acquire<'a> {
    pub(crate) fn new(request: &'a Request, channel: &'a str) -> Self {
        let Request { owner, lease, label, mode, floor, .. } = request;
        Self { owner: *owner, lease: *lease, label, mode: *mode, floor: *floor, channel }
    }

    pub(crate) fn arguments(&self) -> Arguments {
        let mut arguments = Arguments::with_room(5, 160);
        arguments.add(self.owner).add(millis(self.lease)).add(self.label);
        let reader = self.mode == Mode::Shared;
        if reader || self.floor != FencingToken::ZERO || !self.channel.is_empty() {
            arguments.add_floor(self.mode, self.floor).add(self.channel);
        }
        arguments
    }
}
