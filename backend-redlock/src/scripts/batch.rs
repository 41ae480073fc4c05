//! The arguments of `batch.lua`: simple attempts and releases of many tasks.

use std::sync::{Arc, LazyLock};

use backend_redis::node::{Node as Server, Script};
use lock_core::{LockName, OwnerId, Request};

use super::{ScriptCall, arguments, millis, watermark};

static BATCH: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("batch.lua")));

/// The values that all attempts of a batch share. Times are of the nodes' clock, in microseconds.
pub(crate) struct Batch {
    pub(crate) bound: u64,
    /// The clock after which the attempts are late.
    pub(crate) late: u64,
    pub(crate) clock: u64,
    /// The number of the attempts.
    pub(crate) number: u64,
    /// The number proposed as the token of each.
    pub(crate) proposed: u64,
}

impl Batch {
    /// The call, with the locks and owners of releases, and with attempts that have one label.
    pub(crate) fn call<'a>(
        self,
        server: &Server,
        releases: impl ExactSizeIterator<Item = (&'a LockName, OwnerId)> + Clone,
        attempts: impl ExactSizeIterator<Item = &'a Request> + Clone,
    ) -> Arc<ScriptCall> {
        let mut keys = Vec::with_capacity(1 + releases.len() + attempts.len());
        keys.push(server.epoch_key());
        keys.extend(releases.clone().map(|(name, _)| server.lock_key(name)));
        keys.extend(attempts.clone().map(|request| server.lock_key(&request.name)));

        let first = attempts.clone().next();
        let lease = first.map(|request| request.lease);
        let one_lease = attempts.clone().all(|request| Some(request.lease) == lease);
        let Self { bound, late, clock, number, proposed } = self;
        let mut arguments = arguments!("batch.lua":
            bound,
            late_after = late,
            estimated = clock,
            attempt = number,
            proposed,
            label = first.map_or("", |request| request.label.as_str()),
            releases = releases.len(),
            lease = lease.filter(|_| one_lease).map(millis).unwrap_or_default();
            list);
        arguments.reserve(releases.len() + 3 * attempts.len());
        arguments.extend(releases.map(|(_, owner)| owner.to_string()));
        for request in attempts {
            arguments.extend([request.owner.to_string(), watermark(&request.name)]);
            if !one_lease {
                arguments.push(millis(request.lease));
            }
        }
        ScriptCall::granting(&BATCH, keys, arguments)
    }
}
