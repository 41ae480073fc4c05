//! The arguments of `free.lua`: releases a lock on one node.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use backend_redis::node::{Node as Server, Script};
use lock_core::{LockName, OwnerId};

use super::{ScriptCall, arguments, millis};
use crate::tunables::TOMBSTONE_LIFE;

static FREE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("free.lua")));

/// Higher than the number of any attempt.
pub(crate) const EVERY_ATTEMPT: u64 = 9_007_199_254_740_991;

/// What a release does besides. The default is nothing.
#[derive(Clone, Copy, Default)]
pub(crate) struct Free {
    /// How long the lock stays taken, without a holder.
    pub(crate) keep: Option<Duration>,
    /// The last attempt whose record may be freed; no record is older than attempt 0. `None`: any.
    pub(crate) up_to: Option<u64>,
    /// The last attempt that must take nothing from now on. `None`: no tombstone is left.
    pub(crate) tombstone: Option<u64>,
    /// Whether the owner's queue entry is removed, too.
    pub(crate) leave_queue: bool,
}

impl Free {
    /// Frees what the owner has.
    pub(crate) fn call(self, server: &Server, name: &LockName, owner: OwnerId) -> Arc<ScriptCall> {
        let Self { keep, up_to, tombstone, leave_queue } = self;
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let arguments = arguments!("free.lua":
            leaver = owner,
            keep = keep.map(millis).unwrap_or_default(),
            up_to = number(up_to).unwrap_or_default(),
            leaves_queue = if leave_queue { "1" } else { "" },
            tombstone = number(tombstone).unwrap_or_default(),
            tombstone_ms = tombstone.map(|_| millis(TOMBSTONE_LIFE)).unwrap_or_default());
        ScriptCall::plain(&FREE, server.keys(name, owner), arguments)
    }
}

/// Frees a name of any holder.
pub(crate) fn force(server: &Server, name: &LockName) -> Arc<ScriptCall> {
    ScriptCall::plain(&FREE, server.keys(name, OwnerId::from_bits(0)), Vec::new())
}
