//! The arguments of `release.lua`.

use std::{sync::LazyLock, time::Duration};

use lock_core::{Mode, OwnerId, Request};

use super::{
    arguments::{Arguments, millis},
    epoch::Layout,
    script::Script,
};

/// `KEYS`: those of [`Keys::of`](crate::keys::Keys::of) for the owner of the next request. Without
/// a next request only the first four, since no tombstone needs checking.
pub(crate) static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("release.lua"), Layout::Packed));

/// The arguments of `release.lua`.
pub(crate) struct Release<'a> {
    pub(crate) owner: OwnerId,
    pub(crate) mode: Mode,
    /// How long the record is kept.
    pub(crate) keep: Option<Duration>,
    /// The process's own next request, and the channel for its pushes.
    pub(crate) next: Option<(&'a Request, &'a str)>,
}

impl Release<'_> {
    pub(crate) fn arguments(&self) -> Arguments {
        let mut arguments = Arguments::with_room(7, 240);
        arguments.add(self.owner);
        if self.mode == Mode::Exclusive && self.keep.is_none() && self.next.is_none() {
            return arguments;
        }
        match self.keep {
            Some(keep) => arguments.add(millis(keep)),
            None => arguments.add(""),
        };
        if let Some((request, channel)) = self.next {
            let Request { owner, lease, label, .. } = request;
            arguments.add(owner).add(millis(*lease)).add(label);
            arguments.add_floor(request.mode, request.floor).add(channel);
        } else {
            (0..5).for_each(|_| _ = arguments.add(""));
        }
        arguments
    }
}
