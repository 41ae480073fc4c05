//! The guard of a held lock.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::future::{Either, select};
use tokio_util::sync::CancellationToken;

use super::{
    calls::{Call, after_release, check, check_at, release, release_in_background, remaining},
    state::{ClientState, End, Handle, Held},
};
use crate::{
    Error, ErrorKind, FencingToken, Grant, LockName, LossReason, Mode, OwnerId, ReleaseOutcome,
};

/// A held lock, which the client renews in the background until the guard is released, dropped or
/// lost.
///
/// Dropping the guard releases the lock in the background. This works in any context and never
/// blocks. A guard that has reported its loss stays lost, whatever the store answers later.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    handle: Arc<Handle>,
    held: Arc<Held>,
    /// Whether this guard is still in the count of `held`.
    counted: bool,
}

impl Guard {
    pub(crate) fn new(handle: Arc<Handle>, held: Arc<Held>) -> Self {
        Self { handle, held, counted: true }
    }

    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    pub(crate) fn state(&self) -> Arc<ClientState> {
        Arc::clone(&self.handle.0)
    }

    /// The name of the lock.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.held.grant.name
    }

    /// The fencing token. Send it to the resource that the lock protects.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.held.grant.token
    }

    /// Whether the lock is exclusive or shared.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.held.grant.mode
    }

    /// The owner id of this acquire.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.held.grant.owner
    }

    /// The store's grant, for functions that a backend has in addition to the trait.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.held.grant
    }

    /// Whether the holder may still rely on the lock. This only reads the clock: it needs no task
    /// and no store.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        check(&self.handle, &self.held)
    }

    /// How long the holder may rely on the lock without another renewal; zero if the lock is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        remaining(&self.handle, &self.held)
    }

    /// Has the client renew the lock now, and not only when it is due. Does nothing while a renewal
    /// is under way.
    ///
    /// A grant that the store pushed to a waiter is valid for a short claim window, until a renewal
    /// confirms it, which the client sends early in that window. Call this if the work is not to
    /// begin before: an [observer](crate::Observer) sees the confirmation as
    /// [`Renewed`](crate::EventKind::Renewed).
    ///
    /// # Durations
    ///
    /// It returns at once.
    ///
    /// # Errors
    ///
    /// None; a lock that has ended is not renewed.
    pub fn renew_now(&self) {
        if !self.held.unanswered.load(Ordering::Relaxed) {
            let now = self.handle.0.env.now();
            self.handle.0.renewer.reschedule(&self.held, now);
        }
    }

    /// Lets the renewals of this lock go on at the caller's runtime, if the runtime that makes them
    /// ends. An acquire does this, too. So call it only for a guard that was moved to another
    /// runtime.
    pub fn renew_on_this_runtime(&self) {
        if let Some(runtime) = self.handle.env.runtime() {
            *self.held.runtime.lock() = Some(runtime);
        }
    }

    /// Makes another guard of the same lock, for a function whose caller already holds it.
    ///
    /// # Guarantees
    ///
    /// The lock is held until the last of its guards is released or dropped. All guards have the
    /// same token and owner, and learn of a loss together. This does not call the store. (An
    /// acquire is never re-entrant: tasks have no identity, so a second acquire waits like any
    /// other.)
    ///
    /// # Errors
    ///
    /// `Lost` if the lock was lost.
    pub fn reenter(&self) -> Result<Self, Error> {
        if !self.is_valid() {
            return Err(lost_error(&self.held, "the lock was lost before it was entered again"));
        }
        self.held.share();
        Ok(Self::new(Arc::clone(&self.handle), Arc::clone(&self.held)))
    }

    /// Waits until the lock is lost, and returns the reason.
    ///
    /// # Durations
    ///
    /// It ends at the latest when the validity ends, even if the store hangs or the renewing task
    /// has stalled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> LossReason {
        wait_for_loss(&self.handle, &self.held).await
    }

    /// A token that is cancelled when the lock is lost. A release does not cancel it.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.held.cancellation()
    }

    /// Releases the lock and waits for the store's answer. If there are other guards of the lock,
    /// by [`reenter`](Self::reenter), only the last one calls the store.
    ///
    /// # Durations
    ///
    /// It ends within the client's `call_timeout`.
    ///
    /// # Errors
    ///
    /// `Lost` if the lock was lost before. `NotHeld` if the store no longer had it. `Timeout` after
    /// the client's `call_timeout`: the client then repeats the release in the background until the
    /// lease is over. Otherwise the error of the store: the lock is then free when its lease ends.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the release goes on in the background.
    pub async fn release(mut self) -> Result<(), Error> {
        let state = Arc::clone(&self.handle.0);
        let state = &state;
        let _in_flight = ClientState::count(&**state);
        let now = state.env.now();
        // Checked before this guard leaves the count: until then no other guard can end the lock.
        let valid = check_at(state, &self.held, now);
        let last = self.leave();
        if !valid || (last && !self.held.finish(End::Released)) {
            return Err(lost_error(&self.held, "the lock was lost before it was released"));
        }
        if !last {
            return Ok(());
        }
        state.renewer.unregister(&self.held);
        let limit = state.options.call_timeout;
        let work = release(Arc::clone(state), Arc::clone(&self.held), now);
        match Call::new(state, work, after_release).within(limit).await {
            Some(Ok(ReleaseOutcome::Released)) => Ok(()),
            Some(Ok(ReleaseOutcome::NotHeld)) => Err(Error::new(
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

    /// Marks that it is a permit, which cannot be handed over.
    pub(super) fn mark_permit(&self) {
        self.held.permit.store(true, Ordering::Relaxed);
    }

    /// Removes this guard, whose lock has ended, from the count.
    pub(super) fn forget(&mut self) {
        self.leave();
    }

    /// Removes this guard from the count; `true` if it was the last one.
    fn leave(&mut self) -> bool {
        std::mem::take(&mut self.counted) && self.held.leave()
    }
}

/// The error of a call that needs a lock which is lost.
pub(super) fn lost_error(held: &Held, message: &str) -> Error {
    let end = held.end();
    let message = match end {
        Some(End::Lost(LossReason::Closed)) => {
            "the client was closed before the guard was released"
        }
        _ => message,
    };
    let error = Error::new(ErrorKind::Lost, message);
    match end {
        Some(End::Lost(reason)) => error.with_source(reason).on(&held.grant.name),
        _ => error.on(&held.grant.name),
    }
}

pub(crate) async fn wait_for_loss(state: &Arc<ClientState>, held: &Arc<Held>) -> LossReason {
    while let Some(until) = held.valid_until() {
        // A timer of its own, in case the renewer's runtime has stalled.
        let alarm = state.env.sleep_until(until);
        match select(std::pin::pin!(held.ended()), alarm).await {
            Either::Left((End::Lost(reason), _)) => return reason,
            Either::Left((End::Released | End::Detached, _)) => {
                return std::future::pending().await;
            }
            Either::Right(_) => {
                check(state, held);
            }
        }
    }
    match held.ended().await {
        End::Lost(reason) => reason,
        End::Released | End::Detached => std::future::pending().await,
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.leave() {
            release_in_background(&self.handle, &self.held);
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
