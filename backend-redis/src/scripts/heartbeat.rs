//! Heartbeats of many places.

use std::sync::LazyLock;

use lock_core::OwnerId;

use super::{arguments::Arguments, epoch::Layout, script::Script};

/// `KEYS`: the epoch record, the locks, their places.
pub(crate) static HEARTBEAT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("heartbeat.lua"), Layout::Apart));

/// The arguments of `heartbeat.lua`.
pub(crate) fn heartbeats(owners: impl ExactSizeIterator<Item = OwnerId>) -> Arguments {
    let mut arguments = Arguments::with_room(owners.len(), 32 * owners.len());
    for owner in owners {
        arguments.add(owner);
    }
    arguments
}
