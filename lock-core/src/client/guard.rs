//! What the user holds.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use tokio_util::sync::CancellationToken;

use super::{
    call::Call,
    held::{End, Held},
    inner::{Handle, Inner},
    release,
};
use crate::{Error, ErrorKind, FencingToken, Grant, LockName, LossReason, Outcome, OwnerId};

/// A held lock. It is renewed in the background until it is released, dropped, or lost.
///
/// Dropping it releases the lock in the background, in any context, without blocking. A guard that
/// has reported its loss stays lost.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    handle: Arc<Handle>,
    held: Arc<Held>,
}

impl Guard {
    pub(crate) fn new(handle: Arc<Handle>, held: Arc<Held>) -> Self {
        Self { handle, held }
    }

    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    pub(crate) fn inner(&self) -> Arc<Inner> {
        Arc::clone(&self.handle.0)
    }

    /// What is locked.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.held.grant.name
    }

    /// The fencing token: hand it to whatever the lock protects.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.held.grant.token
    }

    /// The id of this acquisition.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.held.grant.owner
    }

    /// What the store granted, with its opaque state: for what a backend offers beyond the trait.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.held.grant
    }

    /// Whether the lock may still be relied on. Needs only the clock: no task, no store.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.handle.check(&self.held)
    }

    /// How long the lock may be relied on without another renewal; zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.handle.remaining(&self.held)
    }

    /// Waits until the lock is lost, and tells why.
    ///
    /// It ends at the latest when the validity ends, also if the store hangs or the task that renews
    /// has stalled. *Cancel safety*: dropping it changes nothing.
    pub async fn lost(&self) -> LossReason {
        wait_for_loss(&self.handle, &self.held).await
    }

    /// A token that is cancelled when the lock is lost. It is not cancelled by a release.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.held.cancellation()
    }

    /// Releases the lock and waits for the store's answer.
    ///
    /// *Errors*: `Lost` if the lock was lost before, `NotHeld` if the store no longer had it,
    /// `Timeout` after the client's `call_timeout`; the release is then repeated in the background
    /// until the lease is over. *Cancel safety*: the release goes on in the background.
    pub async fn release(self) -> Result<(), Error> {
        let inner = &self.handle.0;
        let _in_flight = Inner::count(&**inner);
        // Latches an end of validity that nobody has noticed yet.
        let now = inner.env.now();
        if !inner.check_at(&self.held, now) || !self.held.finish(End::Released) {
            return Err(self.lost_error());
        }
        inner.keeper.unregister(&self.held);
        let limit = inner.options.call_timeout;
        let work = release::release(Arc::clone(inner), Arc::clone(&self.held), now);
        match Call::new(inner, work, release::after_release).within(limit).await {
            Some(Ok(Outcome::Released)) => Ok(()),
            Some(Ok(Outcome::NotHeld)) => Err(Error::new(
                ErrorKind::NotHeld,
                "the store no longer had the lock when it was released",
            )
            .on(self.name())),
            Some(Err(error)) => Err(error.on(self.name())),
            None => Err(Error::new(
                ErrorKind::Timeout,
                format!(
                    "no answer to the release within {}; it is repeated in the background",
                    humantime::format_duration(limit)
                ),
            )
            .on(self.name())),
        }
    }

    fn lost_error(&self) -> Error {
        let error = Error::new(ErrorKind::Lost, "the lock was lost before it was released");
        match self.held.end() {
            Some(End::Lost(reason)) => error.with_source(reason).on(self.name()),
            _ => error.on(self.name()),
        }
    }
}

pub(crate) async fn wait_for_loss(inner: &Arc<Inner>, held: &Arc<Held>) -> LossReason {
    while let Some(until) = held.valid_until() {
        // The own timer is for the case that the keeper's runtime has stalled.
        let alarm = inner.env.sleep_until(until);
        match select(std::pin::pin!(held.ended()), alarm).await {
            Either::Left((End::Lost(reason), _)) => return reason,
            Either::Left((End::Released, _)) => return std::future::pending().await,
            Either::Right(_) => {
                inner.check(held);
            }
        }
    }
    match held.ended().await {
        End::Lost(reason) => reason,
        End::Released => std::future::pending().await,
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.held.valid_until().is_none() {
            return;
        }
        let _in_flight = Inner::count(&*self.handle.0);
        if self.held.finish(End::Released) {
            self.handle.keeper.unregister(&self.held);
            let (inner, held) = (Arc::clone(&self.handle.0), Arc::clone(&self.held));
            self.handle.adopt(Box::pin(release::finish(inner, held)));
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", self.name())
            .field("owner", &self.owner())
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}
