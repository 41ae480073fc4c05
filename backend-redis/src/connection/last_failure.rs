//! The last failure of work that one caller does for all callers that wait.

use lock_core::{Error, Instant};

/// Kept under the lock that the working caller holds. Callers that began to wait before it failed
/// get the same failure. So a server that hangs costs all waiting callers one time limit together,
/// not one each.
#[derive(Debug, Default)]
pub(crate) struct LastFailure(Option<(Instant, Error)>);

impl LastFailure {
    /// The failure, if it happened after the caller began to wait.
    pub(crate) fn since(&self, asked: Instant) -> Option<Error> {
        self.0.as_ref().filter(|(failed, _)| *failed >= asked).map(|(_, error)| error.clone())
    }

    /// Records how a try ended.
    pub(crate) fn note<T>(&mut self, result: &Result<T, Error>, now: Instant) {
        self.0 = result.as_ref().err().map(|error| (now, error.clone()));
    }
}
