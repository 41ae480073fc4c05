//! The arguments of `acquire.lua`: an attempt.

use std::sync::LazyLock;

use lock_core::{FencingToken, Mode, Request};

use super::{
    arguments::{Arguments, millis},
    epoch::Layout,
    script::Script,
};

/// `KEYS`: those of [`Keys::of`](crate::keys::Keys::of).
pub(crate) static ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("acquire.lua"), Layout::Packed));

/// The arguments of `acquire.lua`. `channel` is empty if no queue entry is wanted.
pub(crate) fn acquire(request: &Request, channel: &str) -> Arguments {
    let Request { owner, lease, label, mode, floor, .. } = request;
    let mut arguments = Arguments::with_room(5, 160);
    arguments.add(owner).add(millis(*lease)).add(label);
    let reader = *mode == Mode::Shared;
    if reader || *floor != FencingToken::ZERO || !channel.is_empty() {
        arguments.add_floor(*mode, *floor).add(channel);
    }
    arguments
}
