//! Which acquisitions of a client wait, so that a new queue entry is known to be of one of them.

use std::{
    collections::HashMap,
    sync::{Arc, MutexGuard},
};

use lock_core::{LockName, Mode, Mutex, Request};

use conformance_tests::history::{Acquisition, What};

/// The acquisitions of one client that wait as writers, by name.
#[derive(Clone, Default)]
pub(super) struct Waiting(Arc<Mutex<HashMap<LockName, Vec<Acquisition>>>>);

impl Waiting {
    pub(super) fn begin(&self, name: &LockName, op: &Acquisition) {
        self.all().entry(name.clone()).or_default().push(op.clone());
    }

    pub(super) fn end(&self, name: &LockName, op: &Acquisition) {
        if let Some(ops) = self.all().get_mut(name) {
            ops.retain(|each| each.op() != op.op());
        }
    }

    /// Notes that the store has made a queue entry for this client. That counts only if one
    /// acquisition waits alone: of several, only the client knows which is the oldest. Readers have
    /// queue entries of their own and are not counted.
    pub(super) fn enqueued(&self, request: &Request) {
        let mut all = self.all();
        if request.mode == Mode::Exclusive
            && let Some(ops) = all.get_mut(&request.name)
            && ops.len() == 1
        {
            for op in ops.drain(..) {
                op.record(What::Queued);
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<LockName, Vec<Acquisition>>> {
        self.0.lock()
    }
}
