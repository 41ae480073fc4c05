//! The arguments of `abandon.lua` and `raise.lua`.

use std::sync::LazyLock;

use lock_core::{FencingToken, OwnerId};

use super::{arguments::Arguments, epoch::Layout, script::Script};

/// `KEYS`: those of [`Keys::of`](crate::keys::Keys::of).
pub(crate) static ABANDON: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("abandon.lua"), Layout::Apart));

/// `KEYS`: those of [`Keys::of`](crate::keys::Keys::of).
pub(crate) static RAISE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("raise.lua"), Layout::Apart));

/// The arguments of `abandon.lua`.
pub(crate) fn abandon(owner: OwnerId) -> Arguments {
    Arguments::of([&owner])
}

/// The arguments of `raise.lua`.
pub(crate) fn raise(owner: OwnerId, token: FencingToken) -> Arguments {
    Arguments::of([&owner, &token])
}
