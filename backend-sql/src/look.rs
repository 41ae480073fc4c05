//! A waiter's look at its lock, which is carried out to its end.

use std::future::Future;

use lock_core::{Error, ErrorKind};
use tokio::task::JoinHandle;

/// The look of a waiter that is on its way, if there is one.
///
/// A waiter's `next` is dropped before each of its polls. A look that was cut off with it would cost its session (see
/// `servers/connection.rs`), and a busy server, whose looks are slow, would begin session after session. So the look goes on,
/// and the waiter awaits the same one when its `next` is called again. There is never more than one.
#[derive(Debug)]
pub(crate) struct Look<T>(Option<JoinHandle<Result<T, Error>>>);

impl<T> Default for Look<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Send + 'static> Look<T> {
    #[cfg(feature = "postgres")]
    pub(crate) fn is_on_its_way(&self) -> bool {
        self.0.is_some()
    }

    /// The answer to the look that is on its way, or to a new one.
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
            // The runtime that it ran on has ended.
            Err(Error::new(ErrorKind::Unavailable, "a look had no answer").with_source(error))
        })
    }
}
