//! The arguments of `fence.lua`: a fenced write.

use std::sync::LazyLock;

use lock_core::FencingToken;

use super::{arguments::Arguments, epoch::Layout, script::Script};

/// `KEYS`: the fence's record, and the user's key.
pub(crate) static FENCE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("fence.lua"), Layout::Apart));

/// The arguments of `fence.lua`.
pub(crate) fn fenced_write(token: FencingToken, value: &[u8]) -> Arguments {
    let mut arguments = Arguments::with_room(2, value.len() + 20);
    arguments.add(token).add_bytes(value);
    arguments
}
