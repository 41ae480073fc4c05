//! How a [`Lock`] is acquired: one attempt, then a wait in this process's queue for the name.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};

use super::{
    acquire_events::{AcquireResult, with_events},
    calls::{self, Backoff, Call},
    guard::Guard,
    lock::Lock,
    renewal::admit,
    state::{ClientState, Held},
    waiting::LocalWaiter,
};
use crate::{
    Attempt, Blocked, Busy, Error, ErrorKind, Grant, Instant, LockName, Mode, NotAcquired,
    Quarantined, Request, env::sleep_checking_clock,
};

/// The answer to [`Lock::try_acquire`]. The list is complete, so a `match` can name all variants.
#[derive(Debug)]
pub enum TryAcquire {
    /// This guard holds the lock.
    Acquired(Guard),
    /// Another owner holds the lock, or waits for it.
    Busy(Busy),
    /// The store is in quarantine and grants nothing for now.
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

    /// The guard, or what blocked the lock.
    pub(super) fn or_blocked(self) -> Result<Guard, Blocked> {
        match self {
            Self::Acquired(guard) => Ok(guard),
            Self::Busy(busy) => Err(Blocked::Busy(busy)),
            Self::Quarantined(quarantined) => Err(Blocked::Quarantined(quarantined)),
        }
    }
}

impl AcquireResult for TryAcquire {
    fn held(&self) -> Result<&Held, NotAcquired<'_>> {
        match self {
            Self::Acquired(guard) => Ok(guard.held()),
            Self::Busy(_) => Err(NotAcquired::Busy),
            Self::Quarantined(_) => Err(NotAcquired::Quarantined),
        }
    }
}

impl Lock {
    /// Makes one attempt to acquire the lock, and does not wait.
    ///
    /// # Guarantees
    ///
    /// It calls the store, even if other tasks of this process wait for the lock. A busy lock is
    /// not an error.
    ///
    /// # Durations
    ///
    /// It ends within the client's `call_timeout`, or within twice that if the first answer came
    /// after its lease had ended.
    ///
    /// # Errors
    ///
    /// `InvalidInput` before anything is sent to the store; any error of the store; `Timeout` after
    /// the client's `call_timeout`; `Config` if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the client finishes the attempt in the background and releases
    /// what it got.
    pub async fn try_acquire(self) -> Result<TryAcquire, Error> {
        with_events(self.state(), self.name(), pin!(self.try_once())).await
    }

    async fn try_once(&self) -> Result<TryAcquire, Error> {
        let name = self.checked()?;
        let _in_flight = ClientState::begin(&***self.handle)?;
        let limit = self.handle.options.call_timeout;
        for _ in 0..2 {
            let request = self.handle.request(name, &self.wanted);
            match self.attempt(request, limit).await.map_err(|error| error.on(name))? {
                Attempt::Busy(busy) => return Ok(TryAcquire::Busy(busy)),
                Attempt::Quarantined(quarantined) => {
                    return Ok(TryAcquire::Quarantined(quarantined));
                }
                Attempt::Granted(grant) => {
                    match admit(&self.handle, grant, &self.wanted, false, true) {
                        Ok(held) => return Ok(TryAcquire::Acquired(self.guard(held))),
                        Err(spent) => self.release_spent(spent)?,
                    }
                }
            }
        }
        Err(Error::new(ErrorKind::Timeout, "the store's answer came after the lease had ended")
            .on(name))
    }

    /// Releases a grant that cannot become a guard, in the background, since the caller's wait may
    /// end and its future may be dropped. Fails if the client was closed meanwhile.
    fn release_spent(&self, grant: Grant) -> Result<(), Error> {
        let state = Arc::clone(&self.handle.0);
        let name = grant.name.clone();
        self.handle
            .detach(Box::pin(async move { calls::release_unused(&state, grant, false).await }));
        self.handle.check_open().map_err(|error| error.on(&name))
    }

    /// Makes one attempt. If its outcome is unknown, the clean-up runs in the background.
    async fn attempt(&self, request: Request, limit: Duration) -> Result<Attempt, Error> {
        let state = &self.handle.0;
        let work = calls::attempt(Arc::clone(state), request);
        match Call::new(state, work, calls::after_attempt).within(limit).await {
            Some((request, result)) => {
                if let Ok(Attempt::Quarantined(why)) = &result {
                    state.emit_quarantined(&request.name, why);
                }
                if result.as_ref().is_err_and(Error::is_ambiguous) {
                    let state = Arc::clone(state);
                    self.handle
                        .detach(Box::pin(async move { calls::abandon(&state, request).await }));
                }
                // The answer to a repeat is valid, even if the store may still carry out an earlier
                // try.
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

    /// Acquires the lock, and waits for it if it is busy.
    ///
    /// # Guarantees
    ///
    /// Tasks of one client that wait for one lock share one attempt and one entry in the store's
    /// queue, if it has one. They get the lock in the order of their calls. While the store is
    /// unreachable, the client retries until the wait is over.
    ///
    /// # Durations
    ///
    /// [`wait`](Lock::wait) limits the whole call. By default it waits for ever.
    ///
    /// # Errors
    ///
    /// `InvalidInput` before anything is sent to the store; `Timeout` when the wait is over, with
    /// the reason in [`Error::blocked`]; errors of the store that a retry cannot mend; `Config` if
    /// the client is closed, or if it must wait and there is no tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the client leaves the queue and releases a grant that came
    /// meanwhile.
    pub async fn acquire(self) -> Result<Guard, Error> {
        let acquire = pin!(async {
            let mut quarantine_wait = self.quarantine_wait();
            loop {
                let result = self.acquire_once(quarantine_wait.is_separate(), &mut None).await;
                match &result {
                    Err(error)
                        if quarantine_wait
                            .retry(&*self.handle.env, error, self.is_single_attempt())
                            .await => {}
                    _ => return result,
                }
            }
        });
        with_events(self.state(), self.name(), acquire).await
    }

    /// The same without events. If the caller waits for a quarantine separately (`separate`), a
    /// quarantine found by the first attempt is an error at once. `blocked_by` becomes what blocked
    /// the lock for a while, even if the lock was acquired in the end.
    pub(super) async fn acquire_once(
        &self,
        separate: bool,
        blocked_by: &mut Option<Blocked>,
    ) -> Result<Guard, Error> {
        if self.is_single_attempt() {
            let name = self.name.clone()?;
            let attempt = self.try_once().await?;
            return attempt.or_blocked().map_err(|why| blocked(&name, Some(why)));
        }
        let name = self.checked()?;
        let _in_flight = ClientState::begin(&***self.handle)?;
        let env = &self.handle.env;
        let deadline = self.wait.map(|wait| env.now() + wait);
        // If other tasks of this process wait or make the first attempt, this task queues behind
        // them and does not call the store. Readers do not wait for each other's first attempts,
        // because all of these may succeed.
        let shared = self.wanted.mode == Mode::Shared;
        let at_once = shared || self.handle.backend.answers_at_once();
        let first = self.handle.queues(self.wanted.mode).first_attempt(name, at_once);
        // The first request of a name that is known to be busy is one for a queue entry, which is
        // an attempt as well.
        if first.is_some() && (separate || shared || !self.handle.backend.was_busy(name)) {
            match self.try_first(name, deadline).await?.or_blocked() {
                Ok(guard) => return Ok(guard),
                Err(quarantined @ Blocked::Quarantined(_)) if separate => {
                    return Err(blocked(name, Some(quarantined)));
                }
                Err(blocked) => *blocked_by = Some(blocked),
            }
        }
        let found = blocked_by.clone();
        let mut waiter = LocalWaiter::join(&self.handle, name, self.wanted, found, first)?;
        let reply = loop {
            let reply = match deadline {
                None => (&mut waiter.reply).await,
                Some(at) => {
                    let alarm = pin!(sleep_checking_clock(&**env, at));
                    match select(&mut waiter.reply, alarm).await {
                        Either::Left((reply, _)) => reply,
                        Either::Right(_) => match waiter.reply.try_recv() {
                            Ok(reply) => Ok(reply),
                            Err(_) => return Err(blocked(name, waiter.blocked())),
                        },
                    }
                }
            };
            // The worker has ended with the runtime of another task.
            if reply.is_err() && waiter.join_again()? {
                continue;
            }
            break reply;
        };
        *blocked_by = waiter.blocked();
        reply
            .unwrap_or_else(|_| {
                let message = "the runtime that waited for the lock has ended";
                Err(Error::new(ErrorKind::Unavailable, message))
            })
            .map(|held| self.guard(held))
            .map_err(|error| error.on(name))
    }

    /// Makes the attempt before the task joins a queue. A free lock needs no more.
    async fn try_first(
        &self,
        name: &LockName,
        deadline: Option<Instant>,
    ) -> Result<TryAcquire, Error> {
        let state = &self.handle.0;
        let end = deadline.unwrap_or(Instant::from_nanos(u64::MAX));
        let mut backoff = Backoff::until(end);
        loop {
            let request = self.handle.request(name, &self.wanted);
            let limit = state.options.call_timeout.min(end.since(request.sent));
            match self.attempt(request, limit).await {
                Ok(Attempt::Granted(grant)) => match admit(state, grant, &self.wanted, false, true)
                {
                    Ok(held) => return Ok(TryAcquire::Acquired(self.guard(held))),
                    Err(spent) => {
                        self.release_spent(spent)?;
                        if state.env.now() >= end {
                            return Err(blocked(name, None));
                        }
                    }
                },
                Ok(Attempt::Busy(busy)) => return Ok(TryAcquire::Busy(busy)),
                Ok(Attempt::Quarantined(quarantined)) => {
                    return Ok(TryAcquire::Quarantined(quarantined));
                }
                Err(error) if !error.is_retryable() => return Err(error.on(name)),
                Err(error) => {
                    if !backoff.pause(state).await {
                        return Err(error.on(name));
                    }
                    state.check_open().map_err(|error| error.on(name))?;
                }
            }
        }
    }

    fn guard(&self, held: Arc<Held>) -> Guard {
        let guard = Guard::new(Arc::clone(&self.handle), held);
        guard.renew_on_this_runtime();
        guard
    }
}

pub(super) fn blocked(name: &LockName, blocked: Option<Blocked>) -> Error {
    let why = match &blocked {
        Some(Blocked::Busy(busy)) => match &busy.holder {
            Some(holder) => format!("held by {:?} ({})", holder.label, holder.owner),
            None => "others wait for it".into(),
        },
        Some(Blocked::Quarantined(quarantined)) => format!(
            "the store grants nothing for another {}: {} (if nobody can hold a lock, \
             `leasehold init --first-use` ends the wait)",
            humantime::format_duration(quarantined.remaining),
            quarantined.why
        ),
        None => "the store did not answer in time".into(),
    };
    let error = Error::new(ErrorKind::Timeout, format!("not acquired in time: {why}")).on(name);
    match blocked {
        Some(blocked) => error.blocked_by(blocked),
        None => error,
    }
}
