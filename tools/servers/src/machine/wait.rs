//! Waits for something outside this process, with a deadline.
//!
//! Another process gives no event to await. So the kit looks again and again, at short intervals
//! that grow. It never waits with a fixed sleep.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use crate::error::{KitError, Result};

/// How long a server may take to get ready, with much room for a loaded machine.
pub const READY_WITHIN: Duration = Duration::from_secs(60);

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Looks until there is something; returns it.
///
/// # Errors
///
/// [`KitError::TimedOut`] naming `what` after `deadline`, or at once whatever error `look` gives.
pub async fn until<F, Fut, T>(what: &str, deadline: Duration, mut look: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<Option<T>>>,
{
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        let waited = start.elapsed();
        if waited > deadline {
            return Err(timed_out(what, waited));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The same for places that cannot await, such as `Drop`.
pub(crate) fn until_blocking(
    what: &str,
    deadline: Duration,
    mut ready: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE / 10;
    while !ready()? {
        let waited = start.elapsed();
        if waited > deadline {
            return Err(timed_out(what, waited));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(())
}

fn timed_out(what: &str, waited: Duration) -> KitError {
    KitError::TimedOut { what: what.to_owned(), waited, log: "(none)".to_owned() }
}
