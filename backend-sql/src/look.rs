//! A waiter's look at the store.

use std::future::Future;

use lock_core::{Error, ErrorKind};

/// Carries a look out to its end, also if the waiter stops waiting for it. The connection of a statement that is cut off is
/// lost: where many wait and the server is busy, it would be kept busy by their new sessions.
pub(crate) async fn to_its_end<T: Send + 'static>(
    look: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let ended = |error| Error::new(ErrorKind::Unavailable, "the look has ended").with_source(error);
    tokio::spawn(look).await.unwrap_or_else(|error| Err(ended(error)))
}
