//! Statements that wait for others, and end in time.

use std::{future::Future, time::Duration};

use lock_core::{Error, ErrorKind, SystemEnv, jittered};
use tokio::time::{Instant, timeout_at};

use crate::error::Failure;

/// The longest pause before a statement that others were in the way of is repeated.
const PAUSE: Duration = Duration::from_millis(4);
/// What a statement may take beyond the time limit before it counts as hanging: one that was refused
/// just before the end is to be told as that.
const GRACE: Duration = Duration::from_millis(500);

/// For how long statements are tried, and what they are sent to, for messages.
#[derive(Debug)]
pub(crate) struct Patience {
    pub(crate) timeout: Duration,
    pub(crate) whom: String,
}

impl Patience {
    /// Runs a statement, again and again while others are in its way, up to the time limit.
    ///
    /// A statement that writes must be read to its end: a commit that fails is told only there.
    pub(crate) async fn patiently<T, E, Fut>(
        &self,
        judge: impl Fn(E) -> Failure,
        run: impl Fn() -> Fut,
    ) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, E>>,
    {
        let end = Instant::now() + self.timeout;
        loop {
            // A statement may hang with its server or disk; it may still be carried out.
            let Ok(answer) = timeout_at(end + GRACE, run()).await else {
                return Err(self.over(ErrorKind::Timeout, "no answer from", "within"));
            };
            match answer.map_err(&judge) {
                Ok(done) => return Ok(done),
                Err(Failure::Busy) if Instant::now() + PAUSE < end => {
                    tokio::time::sleep(jittered(&SystemEnv, PAUSE)).await;
                }
                Err(Failure::Busy) => {
                    return Err(self.over(ErrorKind::Unavailable, "others kept writing to", "for"));
                }
                Err(Failure::Error(error)) => return Err(error),
            }
        }
    }

    /// The same for a statement that may be carried out twice: where a connection turns out to be
    /// broken, such as all of a pool are after a restart of the server, up to `connections` more are
    /// tried.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) async fn again<T, E, Fut>(
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
            match self.patiently(&judge, &run).await {
                Err(error) if error.kind() == ErrorKind::OutcomeUnknown && Instant::now() < end => {
                }
                answer => return answer,
            }
        }
        self.patiently(judge, run).await
    }

    fn over(&self, kind: ErrorKind, what: &str, how_long: &str) -> Error {
        let shown = humantime::format_duration(self.timeout);
        Error::new(kind, format!("{what} {} {how_long} {shown}", self.whom))
    }
}
