//! How a [`Lock`] is acquired: one attempt, then a place among those that wait in this process.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};

use super::{
    calls::{self, Backoff, Call},
    guard::Guard,
    lock::Lock,
    observed::{Answer, observed},
    renewal::admit,
    state::{ClientState, Held},
    waiting::LocalWaiter,
};
use crate::{
    Attempt, Blocked, Busy, Error, ErrorKind, Grant, Instant, LockName, Mode, NotAcquired,
    Quarantined, Request, env::sleep_in_slices,
};

/// The answer to [`Lock::try_acquire`]. No variant will be added, so a `match` can name all of them.
#[derive(Debug)]
pub enum TryAcquire {
    /// The lock is held by this guard.
    Acquired(Guard),
    /// Another owner holds it, or waits for it.
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

impl Answer for TryAcquire {
    fn held(&self) -> Result<&Held, NotAcquired<'_>> {
        match self {
            Self::Acquired(guard) => Ok(guard.held()),
            Self::Busy(_) => Err(NotAcquired::Busy),
            Self::Quarantined(_) => Err(NotAcquired::Quarantined),
        }
    }
}

impl Lock {
    /// Makes one attempt and does not wait.
    ///
    /// *Guarantees*: it calls the store also if other tasks of this process wait for the lock. A busy lock is not an
    /// error.
    ///
    /// *Durations*: it ends within the client's `call_timeout`, or twice that if the first answer came after its lease
    /// had ended.
    ///
    /// *Errors*: `InvalidInput` before the store is touched; any error of the store; `Timeout` after
    /// the client's `call_timeout`; `Config` once the client is closed.
    ///
    /// *Cancel safety*: a dropped attempt is finished and released in the background.
    pub async fn try_acquire(self) -> Result<TryAcquire, Error> {
        observed(self.state(), self.name(), pin!(self.try_once())).await
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
                        Err(spent) => self.refuse(spent)?,
                    }
                }
            }
        }
        Err(Error::new(ErrorKind::Timeout, "the store's answer came after the lease had ended")
            .on(name))
    }

    /// Releases a grant that cannot become a guard. It does so in the background: the caller's wait has an end, and its
    /// future may be dropped. Fails if the client was closed meanwhile.
    fn refuse(&self, grant: Grant) -> Result<(), Error> {
        let state = Arc::clone(&self.handle.0);
        let name = grant.name.clone();
        self.handle.detach(Box::pin(async move { calls::give_back(&state, grant, false).await }));
        self.handle.check_open().map_err(|error| error.on(&name))
    }

    /// One call, whose unknown outcome is cleaned up in the background.
    async fn attempt(&self, request: Request, limit: Duration) -> Result<Attempt, Error> {
        let state = &self.handle.0;
        let work = calls::attempt(Arc::clone(state), request);
        match Call::new(state, work, calls::after_attempt).within(limit).await {
            Some((request, result)) => {
                if let Ok(Attempt::Quarantined(why)) = &result {
                    state.tell_quarantined(&request.name, why);
                }
                if result.as_ref().is_err_and(Error::is_ambiguous) {
                    let state = Arc::clone(state);
                    self.handle
                        .detach(Box::pin(async move { calls::abandon(&state, request).await }));
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

    /// Acquires the lock. If the lock is busy, waits in the store's queue, if it has one.
    ///
    /// *Guarantees*: tasks of one client that wait for one lock share one attempt and one place in the queue. They are
    /// served in the order of their calls. While the store is unreachable, it tries again until the wait is over.
    ///
    /// *Durations*: [`wait`](Lock::wait) limits the whole call; by default it waits for ever.
    ///
    /// *Errors*: `InvalidInput` before the store is touched; `Timeout` when the wait is over, with the reason in
    /// [`Error::blocked`]; errors of the store that do not go away by waiting; `Config` once the client is closed, or if
    /// it has to wait without a tokio runtime.
    ///
    /// *Cancel safety*: dropping it gives the place up and releases a grant that came meanwhile.
    pub async fn acquire(self) -> Result<Guard, Error> {
        let acquire = pin!(async {
            let mut patience = self.patience();
            loop {
                let result = self.acquire_once(patience.is_apart(), &mut None).await;
                match &result {
                    Err(error)
                        if patience.again(&*self.handle.env, error, self.is_at_once()).await => {}
                    _ => return result,
                }
            }
        });
        observed(self.state(), self.name(), acquire).await
    }

    /// The same without telling observers. If the caller waits for a quarantine `apart`, a quarantine that the first
    /// attempt finds is an error at once. `in_the_way` says what blocked the lock for a while, also if it was acquired in
    /// the end.
    pub(super) async fn acquire_once(
        &self,
        apart: bool,
        in_the_way: &mut Option<Blocked>,
    ) -> Result<Guard, Error> {
        if self.is_at_once() {
            let name = self.name.clone()?;
            return match self.try_once().await? {
                TryAcquire::Acquired(guard) => Ok(guard),
                TryAcquire::Busy(busy) => Err(blocked(&name, Some(Blocked::Busy(busy)))),
                TryAcquire::Quarantined(held_back) => {
                    Err(blocked(&name, Some(Blocked::Quarantined(held_back))))
                }
            };
        }
        let name = self.checked()?;
        let _in_flight = ClientState::begin(&***self.handle)?;
        let env = &self.handle.env;
        let deadline = self.wait.map(|wait| env.now() + wait);
        // A task that finds others of this process waiting, or asking, queues behind them and does not call the store.
        // Readers do not wait for each other's first attempts, which may all succeed.
        let shared = self.wanted.mode == Mode::Shared;
        let at_once = shared || self.handle.backend.answers_at_once();
        let first = self.handle.queues(self.wanted.mode).first(name, at_once);
        if first.is_some() {
            match self.try_first(name, deadline).await? {
                Ok(guard) => return Ok(guard),
                Err(held_back @ Blocked::Quarantined(_)) if apart => {
                    return Err(blocked(name, Some(held_back)));
                }
                Err(blocked) => *in_the_way = Some(blocked),
            }
        }
        let found = in_the_way.clone();
        let mut waiter = LocalWaiter::join(&self.handle, name, self.wanted, found, first)?;
        let reply = match deadline {
            None => (&mut waiter.reply).await,
            Some(at) => {
                let alarm = pin!(sleep_in_slices(&**env, at));
                match select(&mut waiter.reply, alarm).await {
                    Either::Left((reply, _)) => reply,
                    Either::Right(_) => match waiter.reply.try_recv() {
                        Ok(reply) => Ok(reply),
                        Err(_) => return Err(blocked(name, waiter.blocked())),
                    },
                }
            }
        };
        *in_the_way = waiter.blocked();
        reply
            .unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Unavailable, "the runtime that waited has ended"))
            })
            .map(|held| self.guard(held))
            .map_err(|error| error.on(name))
    }

    /// The attempt before the task joins a queue. An uncontended lock needs no more.
    async fn try_first(
        &self,
        name: &LockName,
        deadline: Option<Instant>,
    ) -> Result<Result<Guard, Blocked>, Error> {
        let state = &self.handle.0;
        let end = deadline.unwrap_or(Instant::from_nanos(u64::MAX));
        let mut backoff = Backoff::until(end);
        loop {
            let request = self.handle.request(name, &self.wanted);
            let limit = state.options.call_timeout.min(end.since(request.sent));
            match self.attempt(request, limit).await {
                Ok(Attempt::Granted(grant)) => match admit(state, grant, &self.wanted, false, true)
                {
                    Ok(held) => return Ok(Ok(self.guard(held))),
                    Err(spent) => {
                        self.refuse(spent)?;
                        if state.env.now() >= end {
                            return Err(blocked(name, None));
                        }
                    }
                },
                Ok(Attempt::Busy(busy)) => return Ok(Err(Blocked::Busy(busy))),
                Ok(Attempt::Quarantined(held_back)) => {
                    return Ok(Err(Blocked::Quarantined(held_back)));
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
        Guard::new(Arc::clone(&self.handle), held)
    }
}

pub(super) fn blocked(name: &LockName, blocked: Option<Blocked>) -> Error {
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
