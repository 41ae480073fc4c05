//! Work that runs under a lock: `client.lock(name).with(work)`.

use std::{
    error::Error as StdError,
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use super::{guard::Guard, lock::Lock, monitor::Monitor};
use crate::{Error, ErrorKind, LossReason};

/// The output of work that ended under a lock, and the result of the release.
#[derive(Clone, Debug)]
#[must_use = "the work's output is in it"]
#[non_exhaustive]
pub struct Finished<T> {
    /// What the work returned.
    pub output: T,
    /// The result of [`Guard::release`](crate::Guard::release). `Lost` means that the lock was lost
    /// just before the work ended, so its last steps may have run without the lock. After any other
    /// error the whole work ran under the lock, and the lock is free when its lease ends, at the
    /// latest.
    pub release: Result<(), Error>,
}

/// Why [`Lock::try_with`] has no output. The list is complete.
#[derive(Clone, Debug)]
pub enum WithError<E> {
    /// The work did not end: the lock was not acquired, or it was lost (`Lost`) and the work was
    /// stopped.
    Lock(Error),
    /// The work ended with this error.
    Work(Finished<E>),
}

impl<E: fmt::Display> fmt::Display for WithError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::Work(finished) => finished.output.fmt(f),
        }
    }
}

impl<E: StdError> StdError for WithError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Lock(error) => error.source(),
            Self::Work(finished) => finished.output.source(),
        }
    }
}

impl<E> From<Error> for WithError<E> {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

impl Lock {
    /// Acquires the lock, runs `work`, and releases the lock. If the lock is lost meanwhile, the
    /// future of `work` is dropped.
    ///
    /// # Guarantees
    ///
    /// The lock is valid whenever `work` is polled. So a process that was paused past the end of
    /// its lease does not continue the work. Code between two awaits is not interrupted. If the
    /// work ends, its output is always returned, together with the result of the release.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Lock::acquire), before `work` is called; `Lost` if the lock was lost
    /// and the work was stopped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, and releases the lock in the background.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::Error> {
    /// # let client = lock_core::LockClient::new(std::sync::Arc::new(lock_core::Memory::new()));
    /// let done = client.lock("report").with(async |lock| format!("written by {}", lock.token())).await?;
    /// println!("{}", done.output);
    /// if let Err(error) = done.release {
    ///     eprintln!("the report is written; its lock was not given back: {error}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn with<F, W>(self, work: F) -> Result<Finished<W::Output>, Error>
    where
        F: FnOnce(Monitor) -> W,
        W: Future,
    {
        let guard = self.acquire().await?;
        let output = guard.while_valid(work(guard.monitor())).await?;
        Ok(Finished { output, release: guard.release().await })
    }

    /// As [`with`](Lock::with), for work that returns a `Result`.
    ///
    /// # Errors
    ///
    /// [`WithError::Work`] with the error of the work and the result of the release;
    /// [`WithError::Lock`] with the errors of [`with`](Lock::with).
    pub async fn try_with<F, W, T, E>(self, work: F) -> Result<Finished<T>, WithError<E>>
    where
        F: FnOnce(Monitor) -> W,
        W: Future<Output = Result<T, E>>,
    {
        let Finished { output, release } = self.with(work).await?;
        match output {
            Ok(output) => Ok(Finished { output, release }),
            Err(error) => Err(WithError::Work(Finished { output: error, release })),
        }
    }
}

impl Guard {
    /// Runs `work` while the lock is valid, as [`Lock::with`] does. If the lock is lost, the future
    /// of `work` is dropped.
    ///
    /// # Guarantees
    ///
    /// As [`Lock::with`]; the guard is not released.
    ///
    /// # Errors
    ///
    /// `Lost` if the lock was lost and the work was stopped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work.
    pub async fn while_valid<W: Future>(&self, work: W) -> Result<W::Output, Error> {
        let (mut lost, mut work) = (pin!(self.lost()), pin!(work));
        let ended = poll_fn(|context| {
            // After a pause of the process, both the work and the loss may be ready.
            if self.is_valid()
                && let Poll::Ready(output) = work.as_mut().poll(context)
            {
                return Poll::Ready(Ok(output));
            }
            lost.as_mut().poll(context).map(Err)
        });
        ended.await.map_err(|reason| {
            let message = match reason {
                LossReason::Closed => {
                    "the client was closed, which stopped the work under the lock"
                }
                _ => "the lock was lost and the work stopped",
            };
            Error::new(ErrorKind::Lost, message).with_source(reason).on(self.name())
        })
    }
}
