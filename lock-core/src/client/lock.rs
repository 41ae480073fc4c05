//! One acquisition, step by step: `client.lock(name).lease(d).wait(d).acquire()`.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};

use super::{
    call::Call,
    guard::Guard,
    inner::{Handle, Inner},
    options::Wanted,
    quarantine::{Limit, Patience},
    release::{self, Backoff},
    waiting::Waiting,
};
use crate::{
    Attempt, Blocked, Busy, Error, ErrorKind, Grant, Instant, LockName, Quarantined, Request,
    env::sleep_in_slices,
};

/// The answer to [`Lock::try_acquire`].
#[derive(Debug)]
pub enum TryAcquire {
    /// The lock is held by this guard.
    Acquired(Guard),
    /// Somebody else holds it, or waits for it.
    Busy(Busy),
    /// The store grants nothing for now.
    Quarantined(Quarantined),
}

impl TryAcquire {
    /// The guard, if the lock was acquired.
    #[must_use]
    pub fn guard(self) -> Option<Guard> {
        match self {
            Self::Acquired(guard) => Some(guard),
            _ => None,
        }
    }
}

/// A lock about to be acquired. Made by [`LockClient::lock`](crate::LockClient::lock).
#[derive(Clone)]
#[must_use = "nothing happens until `acquire` or `try_acquire`"]
pub struct Lock {
    handle: Arc<Handle>,
    name: Result<LockName, Error>,
    wanted: Wanted,
    wait: Option<Duration>,
    quarantine: Option<Limit>,
}

impl Lock {
    pub(crate) fn new(handle: Arc<Handle>, name: Result<LockName, Error>) -> Self {
        let lease = handle.options.lease;
        let wanted = Wanted { lease, at_least: None, hold_at_most: None };
        Self { handle, name, wanted, wait: None, quarantine: None }
    }

    /// How long the store keeps the lock without renewal. Default: the client's `lease`.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.wanted.lease = lease;
        self
    }

    /// How long [`acquire`](Lock::acquire) waits; a second longer at most where the machine was suspended.
    /// Default: for ever.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Lets [`acquire`](Lock::acquire) wait for the end of a quarantine apart from [`wait`](Lock::wait), which counts
    /// from then. `limit` is called once, with what the store says of the quarantine, and returns for how long;
    /// `|quarantine| quarantine.remaining` waits for its end (and up to 1% and 2 s more, since clocks differ and a store
    /// may count whole seconds), and zero does not wait. When the limit is over, the rest counts as any wait.
    ///
    /// For jobs that must run once, with a `wait` of zero: a quarantine begins only with the first request after a loss
    /// of data, so that every machine that starts the job would find it. They come back together at its end; one gets the lock,
    /// and [`at_least`](Lock::at_least) keeps it from those that come a little later.
    ///
    /// Default: a quarantine counts as any wait, since a caller that says `wait(2 s)` is to have its answer by then.
    pub fn wait_for_quarantine<F>(mut self, limit: F) -> Self
    where
        F: Fn(&Quarantined) -> Duration + Send + Sync + 'static,
    {
        self.quarantine = Some(Arc::new(limit));
        self
    }

    /// Keeps the lock for at least this long from its acquisition, also when it is released before:
    /// for jobs that are over sooner than the clocks that start them differ. At most the store's
    /// longest lease. Default: no minimum.
    pub fn at_least(mut self, span: Duration) -> Self {
        self.wanted.at_least = Some(span);
        self
    }

    /// Ends renewal, and the guard's validity, after this long. Default: no limit.
    pub fn hold_at_most(mut self, span: Duration) -> Self {
        self.wanted.hold_at_most = Some(span);
        self
    }

    fn checked(&self) -> Result<&LockName, Error> {
        let name = self.name.as_ref().map_err(Error::clone)?;
        self.wanted.check(&self.handle.backend.guarantees()).map_err(|error| error.on(name))?;
        Ok(name)
    }

    /// Makes one attempt and does not wait: an attempt of its own also where other tasks of this process wait for the
    /// lock, or are about to be answered.
    ///
    /// *Errors*: `InvalidInput` before the store is touched; what the store reports; `Timeout` after
    /// the client's `call_timeout`. Contention is not an error. *Cancel safety*: an attempt that was
    /// dropped is finished and released in the background.
    pub async fn try_acquire(self) -> Result<TryAcquire, Error> {
        let name = self.checked()?;
        let _in_flight = Inner::begin(&***self.handle)?;
        let limit = self.handle.options.call_timeout;
        for _ in 0..2 {
            let request = self.handle.request(name, &self.wanted);
            match self.attempt(request, limit).await.map_err(|error| error.on(name))? {
                Attempt::Busy(busy) => return Ok(TryAcquire::Busy(busy)),
                Attempt::Quarantined(quarantined) => {
                    return Ok(TryAcquire::Quarantined(quarantined));
                }
                Attempt::Granted(grant) => {
                    match self.handle.admit(&self.handle, grant, &self.wanted, false) {
                        Ok(guard) => return Ok(TryAcquire::Acquired(guard)),
                        Err(spent) => self.refuse(spent)?,
                    }
                }
            }
        }
        Err(Error::new(ErrorKind::Timeout, "the store's answer came after the lease had ended")
            .on(name))
    }

    /// Gives back in the background what cannot become a guard: the caller's wait has an end, and its
    /// future may be dropped. An error if it came after the client was closed.
    fn refuse(&self, grant: Grant) -> Result<(), Error> {
        let inner = Arc::clone(&self.handle.0);
        let name = grant.name.clone();
        self.handle.adopt(Box::pin(async move { release::give_back(&inner, grant, false).await }));
        self.handle.check_open().map_err(|error| error.on(&name))
    }

    /// One call, whose unknown outcome is cleaned up in the background.
    async fn attempt(&self, request: Request, limit: Duration) -> Result<Attempt, Error> {
        let inner = &self.handle.0;
        let work = release::attempt(Arc::clone(inner), request);
        match Call::new(inner, work, release::after_attempt).within(limit).await {
            Some((request, result)) => {
                if result.as_ref().is_err_and(Error::is_ambiguous) {
                    let inner = Arc::clone(inner);
                    self.handle
                        .adopt(Box::pin(async move { release::abandon(&inner, request).await }));
                }
                // The answer to a repeat holds, whatever an earlier try may do.
                match result.as_ref().map_err(Error::blocked) {
                    Err(Some(Blocked::Busy(busy))) => Ok(Attempt::Busy(busy.clone())),
                    Err(Some(Blocked::Quarantined(why))) => Ok(Attempt::Quarantined(why.clone())),
                    _ => result,
                }
            }
            None => {
                let limit = humantime::format_duration(limit);
                let message = format!("the store did not answer within {limit}");
                Err(Error::new(ErrorKind::Timeout, message))
            }
        }
    }

    /// Acquires the lock, waiting in the store's queue where it has one.
    ///
    /// Tasks of one client that wait for one lock share an attempt and a place there, and are served in the order of
    /// their calls.
    ///
    /// *Errors*: `InvalidInput` before the store is touched; `Timeout` when the wait is over, with what
    /// stood in the way in [`Error::blocked`]; what the store reports and waiting cannot mend. While
    /// the store is unreachable it tries again until the wait is over. *Cancel safety*: dropping it
    /// gives the place up and releases what was granted meanwhile.
    pub async fn acquire(mut self) -> Result<Guard, Error> {
        let Some(limit) = self.quarantine.clone() else { return self.acquire_once().await };
        let mut patience = Patience::new(limit);
        loop {
            let result = self.clone().acquire_once().await;
            let Err(error) = &result else { return result };
            if patience.pause(&*self.handle.env, error).await {
                continue;
            }
            let held_back = matches!(error.blocked(), Some(Blocked::Quarantined(_)));
            // What is left of the quarantine counts as any wait.
            if !held_back || self.quarantine.take().is_none() || self.wait == Some(Duration::ZERO) {
                return result;
            }
        }
    }

    /// The same; where a quarantine is waited for apart, one that is found at first is an error at once.
    async fn acquire_once(self) -> Result<Guard, Error> {
        if self.wait == Some(Duration::ZERO) {
            let name = self.name.clone()?;
            return match self.try_acquire().await? {
                TryAcquire::Acquired(guard) => Ok(guard),
                TryAcquire::Busy(busy) => Err(blocked(&name, Some(Blocked::Busy(busy)))),
                TryAcquire::Quarantined(held_back) => {
                    Err(blocked(&name, Some(Blocked::Quarantined(held_back))))
                }
            };
        }
        let name = self.checked()?;
        let _in_flight = Inner::begin(&***self.handle)?;
        let env = &self.handle.env;
        let deadline = self.wait.map(|wait| env.now() + wait);
        // A task that finds others of this process waiting, or asking, goes behind them and asks nothing of the store.
        let mut in_the_way = None;
        let first = Waiting::first(&self.handle, name);
        if first.is_some() {
            match self.try_first(name, deadline).await? {
                Ok(guard) => return Ok(guard),
                Err(held_back @ Blocked::Quarantined(_)) if self.quarantine.is_some() => {
                    return Err(blocked(name, Some(held_back)));
                }
                Err(blocked) => in_the_way = Some(blocked),
            }
        }
        let mut ticket = Waiting::join(&self.handle, name, self.wanted, in_the_way, first)?;
        let reply = match deadline {
            None => (&mut ticket.reply).await,
            Some(at) => {
                let alarm = pin!(sleep_in_slices(&**env, at));
                match select(&mut ticket.reply, alarm).await {
                    Either::Left((reply, _)) => reply,
                    Either::Right(_) => match ticket.reply.try_recv() {
                        Ok(reply) => Ok(reply),
                        Err(_) => return Err(blocked(name, ticket.blocked())),
                    },
                }
            }
        };
        reply
            .unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Unavailable, "the runtime that waited has ended"))
            })
            .map_err(|error| error.on(name))
    }

    /// The attempt before any place is taken: the whole way of an uncontended lock.
    async fn try_first(
        &self,
        name: &LockName,
        deadline: Option<Instant>,
    ) -> Result<Result<Guard, Blocked>, Error> {
        let inner = &self.handle.0;
        let end = deadline.unwrap_or(Instant::from_nanos(u64::MAX));
        let mut backoff = Backoff::until(end);
        loop {
            let request = self.handle.request(name, &self.wanted);
            let limit = inner.options.call_timeout.min(end.since(request.sent));
            match self.attempt(request, limit).await {
                Ok(Attempt::Granted(grant)) => {
                    match inner.admit(&self.handle, grant, &self.wanted, false) {
                        Ok(guard) => return Ok(Ok(guard)),
                        Err(spent) => {
                            self.refuse(spent)?;
                            if inner.env.now() >= end {
                                return Err(blocked(name, None));
                            }
                        }
                    }
                }
                Ok(Attempt::Busy(busy)) => return Ok(Err(Blocked::Busy(busy))),
                Ok(Attempt::Quarantined(held_back)) => {
                    return Ok(Err(Blocked::Quarantined(held_back)));
                }
                Err(error) if !error.is_retryable() => return Err(error.on(name)),
                Err(error) => {
                    if !backoff.pause(inner).await {
                        return Err(error.on(name));
                    }
                    inner.check_open().map_err(|error| error.on(name))?;
                }
            }
        }
    }
}

fn blocked(name: &LockName, blocked: Option<Blocked>) -> Error {
    let why = match &blocked {
        Some(Blocked::Busy(busy)) => match &busy.holder {
            Some(holder) => format!("held by {:?} ({})", holder.label, holder.owner),
            None => "others wait for it".into(),
        },
        Some(Blocked::Quarantined(held_back)) => format!(
            "the store grants nothing for another {}: {}",
            humantime::format_duration(held_back.remaining),
            held_back.why
        ),
        None => "no answer of the store in time".into(),
    };
    let error = Error::new(ErrorKind::Timeout, format!("not acquired in time: {why}")).on(name);
    match blocked {
        Some(blocked) => error.blocked_by(blocked),
        None => error,
    }
}
