//! A waiter with an entry in a table of queue entries.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Error, FencingToken, Grant, Mode, OwnerId, Request, Signal, SystemEnv, Waiter, jittered,
};
use tokio::{task::JoinHandle, time::Instant};

use super::{QueueEntries, QueueEntry};
use crate::{
    check::Check,
    dialect::Dialect,
    gate,
    tunables::{
        CHECK_AFTER_FAILURE, CHECK_PART, CLAIM_WINDOW, LONGEST_CHECK_PAUSE, LONGEST_POLL,
        SHORTEST_CHECK_PAUSE,
    },
};

/// What a waiter finds when it checks.
#[derive(Debug)]
pub(crate) enum CheckResult {
    /// A release granted it the lock, with this token. So much of that lease was left when the
    /// check read the row.
    Granted(FencingToken, Duration),
    /// The lock is free, and nobody comes first.
    Free,
    /// It must wait: at least this many others come first. If the bell of the one right before it
    /// hangs, also whose that is.
    Wait(u32, Option<OwnerId>),
}

/// What a waiter knows before it checks.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "mysql"), expect(dead_code, reason = "only MySQL's check needs it"))]
pub(crate) struct Known {
    /// The last check has found nobody before it.
    pub(crate) is_next: bool,
    /// The bell of the one before it has rung.
    pub(crate) rung: bool,
}

/// A task that listens to a bell, until this is dropped.
#[derive(Debug)]
pub(crate) struct Listening(JoinHandle<bool>);

impl Listening {
    /// `rings` returns `true` when the bell has rung, and `false` if it cannot be heard.
    #[cfg(feature = "mysql")]
    pub(crate) fn new(rings: impl Future<Output = bool> + Send + 'static) -> Self {
        Self(tokio::spawn(rings))
    }

    async fn rung(&mut self) -> bool {
        (&mut self.0).await.unwrap_or(false)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A database with a table of queue entries.
#[async_trait]
pub(crate) trait Queue: Dialect {
    fn entries(&self) -> &QueueEntries;

    /// Whether this client is woken when a release grants it a lock. If not, its waiters check at
    /// intervals.
    fn is_woken(&self) -> bool;

    /// Listens to the bell of an owner, if there are bells and this client has a session for it.
    fn listen(&self, _owner: OwnerId) -> Option<Listening> {
        None
    }

    /// Reads the state of a request.
    async fn check(&self, request: &Request, known: Known) -> Result<CheckResult, Error>;

    /// Removes an entry, and releases what it was granted.
    async fn leave(&self, request: &Request) -> Result<(), Error>;
}

#[derive(Debug)]
pub(crate) struct QueueWaiter<D: Queue> {
    store: Arc<D>,
    request: Request,
    entry: Arc<QueueEntry>,
    /// Whether there is a reason to check.
    is_due: bool,
    check: Check<CheckResult>,
    pace: Pace,
    /// Whose bell hangs, of those right before it.
    bell: Option<OwnerId>,
    listening: Option<(OwnerId, Listening)>,
    /// Whose bell has rung.
    rung: Option<OwnerId>,
}

/// How fast the queue moves, as a waiter that is not woken has seen by its checks.
#[derive(Debug)]
struct Pace {
    /// How many others came first at the last check.
    before: Option<u32>,
    checked: Instant,
    /// How long it took to serve one waiter.
    turn: Duration,
    /// For how long nobody was served.
    still: Duration,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { before: None, checked: now, turn: Duration::ZERO, still: Duration::ZERO }
    }

    /// Notes the result of a check.
    fn note(&mut self, before: u32, now: Instant) {
        let since = now - self.checked;
        match self.before.map_or(0, |last| last.saturating_sub(before)) {
            0 => self.still += since,
            served => (self.turn, self.still) = (since / served, Duration::ZERO),
        }
        (self.before, self.checked) = (Some(before), now);
    }

    /// The pause before the next check: a part of the time until the waiter's turn.
    fn pause(&self) -> Duration {
        let first = (self.turn.max(self.still) / CHECK_PART)
            .clamp(SHORTEST_CHECK_PAUSE, LONGEST_CHECK_PAUSE);
        let turns = self.before.unwrap_or(0).saturating_add(1);
        first.saturating_mul(turns).min(LONGEST_POLL)
    }
}

impl<D: Queue> QueueWaiter<D> {
    /// Adds the entry to those of this client, before the store has it.
    pub(crate) fn new(store: Arc<D>, request: &Request) -> Self {
        let entry = store.entries().add(request);
        let (request, pace) = (request.clone(), Pace::new(Instant::now()));
        let (bell, listening, rung) = (None, None, None);
        let (check, is_due) = (Check::default(), false);
        Self { store, request, entry, is_due, check, pace, bell, listening, rung }
    }

    async fn wait(&mut self) {
        if self.store.is_woken() {
            return self.entry.woken().await;
        }
        if let Some(bell) = self.bell.take() {
            self.listening = self.store.listen(bell).map(|listening| (bell, listening));
            self.entry.set_listening(self.listening.is_some());
        }
        if let Some((bell, listening)) = &mut self.listening {
            self.rung = listening.rung().await.then_some(*bell);
            self.listening = None;
            self.entry.set_listening(false);
            if self.rung.is_some() {
                return;
            }
        }
        tokio::time::sleep(jittered(&SystemEnv, self.pace.pause())).await;
    }
}

impl<D: Queue> Drop for QueueWaiter<D> {
    fn drop(&mut self) {
        self.store.entries().remove(self.request.owner, &self.entry);
    }
}

#[async_trait]
impl<D: Queue> Waiter for QueueWaiter<D> {
    async fn next(&mut self) -> Signal {
        loop {
            if !self.is_due {
                self.wait().await;
                self.is_due = true;
            }
            let Self { store, request, check, pace, rung, .. } = self;
            let known = Known { is_next: pace.before == Some(0), rung: rung.is_some() };
            let begin = || {
                let (store, request) = (Arc::clone(store), request.clone());
                async move {
                    let _pass = gate::attempt(store.gate()).await?;
                    store.check(&request, known).await
                }
            };
            let result = match check.answer(begin).await {
                Ok(result) => result,
                // The core polls as well, and reports its errors.
                Err(error) => {
                    tracing::trace!(target: "leasehold", name = %self.request.name, %error, "check failed");
                    tokio::time::sleep(CHECK_AFTER_FAILURE).await;
                    continue;
                }
            };
            self.is_due = false;
            let rung = self.rung.take();
            match result {
                CheckResult::Granted(token, left) => {
                    // The grant has removed the entry from the queue. If the waiter asks again, it
                    // was too late to confirm the grant.
                    self.entry.heartbeat_failed();
                    let grant = Grant::new(&self.request, token).with_mode(self.request.mode);
                    if grant.mode == Mode::Shared {
                        self.store.tell_next_reader(&self.request).await;
                    }
                    // The release may have read its clock before the last attempt of this waiter,
                    // and have waited for the row since. Then less than the claim window is left.
                    return Signal::Granted(grant.pushed(left.min(CLAIM_WINDOW)));
                }
                CheckResult::Free => {
                    self.entry.note_free();
                    // If it does not get the lock, somebody came first.
                    self.pace.before = None;
                    return Signal::Recheck;
                }
                CheckResult::Wait(before, bell) => {
                    self.pace.note(before, Instant::now());
                    // A bell that rings and still hangs says nothing. Two sessions that a proxy
                    // puts on one of the server's have such bells.
                    self.bell = bell.filter(|bell| Some(*bell) != rung);
                }
            }
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        // All its attempts were answered. If none entered the queue, there is nothing to remove.
        if !self.entry.is_queued() {
            return Ok(());
        }
        let _pass = gate::attempt(self.store.gate()).await?;
        let left = self.store.leave(&self.request).await;
        left.map_err(|error| error.at(D::KIND, "leave"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_checks_the_more_often_the_sooner_its_turn_comes() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        let mut check = |before, after| {
            now += Duration::from_millis(after);
            pace.note(before, now);
            pace.pause().as_millis()
        };
        assert_eq!(check(8, 2), 9);
        // Nobody is served for long.
        assert_eq!(check(8, 10_000), 500);
        // Then three are, in 120 ms at most.
        assert_eq!(check(5, 120), 30);
        assert_eq!(check(1, 40), 2);
        assert_eq!(check(0, 10), 1);
        assert_eq!(check(0, 80), 10);
        assert_eq!(check(0, 10_000), 250);
        assert_eq!(check(u32::MAX, 1), 500);
    }
}
