//! The last failure of what one does for all who wait for it.

use lock_core::{Error, Instant};

/// Kept under the lock that whoever tries holds. Who asked before it failed has the same failure, so that
/// a server that hangs costs all who wait one time limit, not one after the other.
#[derive(Debug, Default)]
pub(crate) struct LastFailure(Option<(Instant, Error)>);

impl LastFailure {
    /// The failure, if it came after somebody asked.
    pub(crate) fn since(&self, asked: Instant) -> Option<Error> {
        self.0.as_ref().filter(|(failed, _)| *failed >= asked).map(|(_, error)| error.clone())
    }

    /// Takes note of how a try ended.
    pub(crate) fn note<T>(&mut self, result: &Result<T, Error>, now: Instant) {
        self.0 = result.as_ref().err().map(|error| (now, error.clone()));
    }
}
