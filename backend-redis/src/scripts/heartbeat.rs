//! The arguments of `heartbeat.lua`: heartbeats of many queue entries.

use std::sync::LazyLock;

use lock_core::{OwnerId, Request};

use super::{
    arguments::{Arguments, millis},
    epoch::Layout,
    script::Script,
};

/// `KEYS`: the epoch record, the entries, and their locks.
pub(crate) static HEARTBEAT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("heartbeat.lua"), Layout::Apart));

/// The text of an entry behind its time, as acquire.lua writes it.
pub(crate) fn entry_of(request: &Request, channel: &str) -> String {
    let Request { lease, floor, label, .. } = request;
    format!(" {} {floor} {channel} {label}", millis(*lease))
}

/// The arguments of `heartbeat.lua`, which reads the last `read` locks.
pub(crate) fn heartbeats(
    owners: impl ExactSizeIterator<Item = OwnerId>,
    entry: &str,
    read: usize,
) -> Arguments {
    let mut arguments = Arguments::with_room(owners.len() + 2, 32 * owners.len() + entry.len() + 4);
    for owner in owners {
        arguments.add(owner);
    }
    arguments.add(entry).add(read);
    arguments
}
