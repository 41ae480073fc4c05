//! The arguments of `renew.lua`: renewals of many grants.

use std::{sync::LazyLock, time::Duration};

use lock_core::OwnerId;

use super::{
    arguments::{Arguments, millis},
    epoch::Layout,
    script::Script,
};

/// `KEYS`: the locks, then the epoch record, unless the caller has read it already.
pub(crate) static RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("renew.lua"), Layout::Apart));

/// The arguments of `renew.lua`: owner and lease of each lock.
pub(crate) fn renewals(grants: impl ExactSizeIterator<Item = (OwnerId, Duration)>) -> Arguments {
    let mut arguments = Arguments::with_room(2 * grants.len(), 40 * grants.len());
    for (owner, lease) in grants {
        arguments.add(owner).add(millis(lease));
    }
    arguments
}
