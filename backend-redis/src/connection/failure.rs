//! The last failure of a task that one caller does for all that wait.

use lock_core::{Error, Instant};

/// Kept under the lock that the trying caller holds. Callers that asked before it failed get the same failure, so that
/// a server that hangs costs all waiting callers one time limit together, not one each.
#[derive(Debug, Default)]
pub(crate) struct LastFailure(Option<(Instant, Error)>);

impl LastFailure {
    /// The failure, if it came after the caller asked.
    pub(crate) fn since(&self, asked: Instant) -> Option<Error> {
        self.0.as_ref().filter(|(failed, _)| *failed >= asked).map(|(_, error)| error.clone())
    }

    /// Takes note of how a try ended.
    pub(crate) fn note<T>(&mut self, result: &Result<T, Error>, now: Instant) {
        self.0 = result.as_ref().err().map(|error| (now, error.clone()));
    }
}
