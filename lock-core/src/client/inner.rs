//! What a client, its guards and its tasks share.

use std::{
    borrow::Borrow,
    fmt,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::select;
use tokio::sync::Notify;

use super::{
    guard::Guard,
    held::{End, Held},
    keeper::Keeper,
    options::{ClientOptions, Wanted},
    release, renewal,
    waiting::Waiting,
};
use crate::{
    Backend, Env, Error, ErrorKind, Grant, Instant, LockName, LossReason, OwnerId, Request,
};

/// A mutex whose short critical sections cannot leave broken data behind, so that a panic
/// elsewhere (poison) does not matter.
#[derive(Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Inner {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) options: ClientOptions,
    pub(crate) keeper: Keeper,
    pub(crate) waiting: Waiting,
    /// `close` writes here and then reads `in_flight`, a call does it the other way round: all four
    /// are sequentially consistent, so that at least one of the two sees the other.
    pub(crate) closing: AtomicBool,
    in_flight: AtomicUsize,
    landed: Notify,
}

/// The life of a client: when the last client and guard are gone, the keeper ends.
pub(crate) struct Handle(pub(crate) Arc<Inner>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.keeper.stop();
    }
}

impl std::ops::Deref for Handle {
    type Target = Arc<Inner>;

    fn deref(&self) -> &Arc<Inner> {
        &self.0
    }
}

/// A call that `close` waits for.
pub(crate) struct InFlight<I: Borrow<Inner>>(I);

impl<I: Borrow<Inner>> Drop for InFlight<I> {
    fn drop(&mut self) {
        let inner = self.0.borrow();
        if inner.in_flight.fetch_sub(1, Ordering::SeqCst) == 1
            && inner.closing.load(Ordering::SeqCst)
        {
            inner.landed.notify_waiters();
        }
    }
}

impl Inner {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        env: Arc<dyn Env>,
        options: ClientOptions,
    ) -> Self {
        Self {
            backend,
            env,
            options,
            keeper: Keeper::default(),
            waiting: Waiting::default(),
            closing: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            landed: Notify::new(),
        }
    }

    /// Counts a call. What takes a lock out of the keeper's care to release it counts itself before, so that `close`
    /// finds it in one of the two places.
    pub(crate) fn count<I: Borrow<Self>>(inner: I) -> InFlight<I> {
        inner.borrow().in_flight.fetch_add(1, Ordering::SeqCst);
        InFlight(inner)
    }

    /// Counts a call, or refuses it because the client is closed.
    pub(crate) fn begin<I: Borrow<Self>>(inner: I) -> Result<InFlight<I>, Error> {
        let ticket = Self::count(inner);
        ticket.0.borrow().check_open()?;
        Ok(ticket)
    }

    /// An error once the client is closed.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.closing.load(Ordering::SeqCst) { Err(closed()) } else { Ok(()) }
    }

    /// Waits until no call is in flight, but not longer than `limit`.
    pub(crate) async fn landed(&self, limit: Duration) {
        let landed = pin!(async {
            loop {
                let mut landed = pin!(self.landed.notified());
                landed.as_mut().enable();
                if self.in_flight.load(Ordering::SeqCst) == 0 {
                    return;
                }
                landed.await;
            }
        });
        select(landed, self.env.sleep(limit)).await;
    }

    /// A request of a fresh owner.
    pub(crate) fn request(&self, name: &LockName, wanted: &Wanted) -> Request {
        let owner = OwnerId::from_bits(self.env.random());
        let label = self.options.label.clone();
        Request::new(name.clone(), owner, label, wanted.lease, self.env.now())
    }

    /// Makes a guard of a grant. A grant whose validity is spent comes back: it counts as not
    /// acquired (S3), and the caller releases it; so does one that comes after `close` has released
    /// everything. `doubtful`: an attempt of its owner may still be on
    /// its way.
    pub(crate) fn admit(
        self: &Arc<Self>,
        handle: &Arc<Handle>,
        grant: Grant,
        wanted: &Wanted,
        doubtful: bool,
    ) -> Result<Guard, Grant> {
        let now = self.env.now();
        let (pushed, shorter) = (grant.claim.is_some(), grant.lease < wanted.lease);
        let held = Arc::new(Held::new(grant, self.keeper.next_id(), wanted, doubtful, now)?);
        let at = if pushed {
            // Confirmed by a renewal, off the caller's path and early in its claim window; not at once,
            // since what is held for a moment is given back before and needs none.
            held.valid_until().map_or(now, |until| now + until.since(now) / 16)
        } else if shorter {
            // The store has another lease than the caller's.
            now
        } else {
            renewal::due(&held.grant, held.grant.from)
        };
        if !self.keep(&held, at) {
            return Err(held.grant.clone());
        }
        Ok(Guard::new(Arc::clone(handle), held))
    }

    /// Whether the holder may still believe it; notices the end itself, with no task's help.
    pub(crate) fn check(self: &Arc<Self>, held: &Arc<Held>) -> bool {
        held.valid_until().is_some() && self.check_at(held, self.env.now())
    }

    /// The same at an instant just read.
    pub(crate) fn check_at(self: &Arc<Self>, held: &Arc<Held>, now: Instant) -> bool {
        let Some(until) = held.valid_until() else { return false };
        if now < until {
            return true;
        }
        // A renewal may have been confirmed between the two reads.
        match held.valid_until() {
            Some(until) if now < until => true,
            _ => {
                self.expire(held, now);
                false
            }
        }
    }

    /// What is left of the validity.
    pub(crate) fn remaining(self: &Arc<Self>, held: &Arc<Held>) -> Duration {
        let now: Instant = self.env.now();
        held.valid_until().map_or(Duration::ZERO, |until| until.since(now))
    }

    /// Ends a lock that is lost, tells its holder, and frees what the store may still keep.
    pub(crate) fn lose(self: &Arc<Self>, held: &Arc<Held>, reason: LossReason) {
        let _in_flight = Self::count(&**self);
        if !held.finish(End::Lost(reason)) {
            return;
        }
        self.keeper.unregister(held);
        let grant = &held.grant;
        tracing::warn!(name = %grant.name, owner = %grant.owner, token = %grant.token, %reason, "lock lost");
        match reason {
            LossReason::TakenOver | LossReason::Gone => {
                self.waiting.forget_carry(grant);
                if held.doubtful {
                    let (inner, held) = (Arc::clone(self), Arc::clone(held));
                    self.adopt(Box::pin(async move { release::bury(&inner, &held.grant).await }));
                }
            }
            _ => self.adopt(Box::pin(release::finish(Arc::clone(self), Arc::clone(held)))),
        }
    }
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Config, "the client is closed")
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("backend", &self.backend).finish_non_exhaustive()
    }
}
