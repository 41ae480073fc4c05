//! Repeats statements that lost a conflict with others, up to the time limit.

use std::{
    future::Future,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use lock_core::{Error, ErrorKind, SystemEnv, jittered};
use tokio::time::{Instant, timeout_at};

use crate::{
    error::Failure,
    tunables::{GRACE, RETRY_PAUSE},
};

/// How long a statement is repeated, and the name of the server or file, for messages.
#[derive(Debug)]
pub(crate) struct Retry {
    timeout: Duration,
    whom: String,
    broken: AtomicU64,
}

impl Retry {
    pub(crate) fn new(timeout: Duration, whom: String) -> Self {
        Self { timeout, whom, broken: AtomicU64::new(0) }
    }

    /// How often a statement was repeated although it may have been carried out. The answer to the
    /// next try does not show whether it was.
    pub(crate) fn broken(&self) -> u64 {
        self.broken.load(Ordering::Relaxed)
    }

    /// Runs a statement, and repeats it while it loses conflicts with others, up to the time limit.
    ///
    /// Read the answer of a statement that writes to its end: only there does it report a commit
    /// that failed.
    pub(crate) async fn run<T, E, Fut>(
        &self,
        judge: impl Fn(E) -> Failure,
        run: impl Fn() -> Fut,
    ) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, E>>,
    {
        self.until(Instant::now() + self.timeout, judge, run).await
    }

    async fn until<T, E, Fut>(
        &self,
        end: Instant,
        judge: impl Fn(E) -> Failure,
        run: impl Fn() -> Fut,
    ) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, E>>,
    {
        loop {
            // A statement may hang with its server or disk; it may still be carried out.
            let Ok(answer) = timeout_at(end + GRACE, run()).await else {
                return Err(self.over(ErrorKind::Timeout, "no answer from", "within"));
            };
            match answer.map_err(&judge) {
                Ok(done) => return Ok(done),
                Err(Failure::Busy(_)) if Instant::now() + RETRY_PAUSE < end => {
                    tokio::time::sleep(jittered(&SystemEnv, RETRY_PAUSE)).await;
                }
                Err(Failure::Busy(last)) => {
                    let over = self.over(ErrorKind::Unavailable, "others kept writing to", "for");
                    return Err(over.with_source(last));
                }
                Err(Failure::Error(error)) => return Err(error),
            }
        }
    }

    /// The same for a statement that is safe to run twice. If a connection is broken, this tries up
    /// to `connections` more, because after a restart of the server all connections of a pool are
    /// broken.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) async fn run_repeatable<T, E, Fut>(
        &self,
        connections: u32,
        judge: impl Fn(E) -> Failure,
        run: impl Fn() -> Fut,
    ) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, E>>,
    {
        let end = Instant::now() + self.timeout;
        for _ in 0..connections {
            match self.until(end, &judge, &run).await {
                Err(error) if error.kind() == ErrorKind::OutcomeUnknown && Instant::now() < end => {
                    self.broken.fetch_add(1, Ordering::Relaxed);
                }
                answer => return answer,
            }
        }
        self.until(end, judge, run).await
    }

    fn over(&self, kind: ErrorKind, what: &str, how_long: &str) -> Error {
        let shown = humantime::format_duration(self.timeout);
        Error::new(kind, format!("{what} {} {how_long} {shown}", self.whom))
    }
}

#[cfg(all(test, any(feature = "mysql", feature = "postgres")))]
mod tests {
    use super::*;

    /// Each broken connection may take a long time to turn out to be broken.
    #[tokio::test(start_paused = true)]
    async fn all_tries_together_take_no_longer_than_a_call_may() {
        let retry = Retry::new(Duration::from_secs(5), "the server".into());
        let began = Instant::now();
        let answer = retry.run_repeatable(4, std::convert::identity, || async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let broken = Error::new(ErrorKind::OutcomeUnknown, "the connection broke");
            Err::<(), _>(Failure::Error(broken))
        });
        assert!(answer.await.unwrap_err().is_ambiguous());
        assert!(began.elapsed() <= retry.timeout + GRACE, "{:?}", began.elapsed());
    }
}
