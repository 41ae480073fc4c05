//! A check: a waiter reads the row of its lock, and changes nothing. Each check runs to its end.

use std::future::Future;

use lock_core::{Error, ErrorKind};
use tokio::task::JoinHandle;

/// The running check of a waiter, if there is one.
///
/// The core drops a waiter's `next` before each poll. If the check ended with it, it would cost its
/// session (see `servers/connection.rs`), and a busy server, on which checks are slow, would start
/// session after session. So the check goes on, and the next call of `next` awaits it. A waiter
/// never has more than one.
#[derive(Debug)]
pub(crate) struct Check<T>(Option<JoinHandle<Result<T, Error>>>);

impl<T> Default for Check<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Send + 'static> Check<T> {
    #[cfg(feature = "postgres")]
    pub(crate) fn is_running(&self) -> bool {
        self.0.is_some()
    }

    /// The answer of the running check, or of a new one.
    pub(crate) async fn answer<F>(&mut self, begin: impl FnOnce() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let answer = self.0.get_or_insert_with(|| tokio::spawn(begin())).await;
        self.0 = None;
        answer.unwrap_or_else(|error| {
            if error.is_panic() {
                std::panic::resume_unwind(error.into_panic());
            }
            // The runtime of the check has ended.
            Err(Error::new(ErrorKind::Unavailable, "a check got no answer").with_source(error))
        })
    }
}
