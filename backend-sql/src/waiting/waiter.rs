//! A waiter with a place in a table of places.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Error, FencingToken, Grant, Mode, Request, Signal, SystemEnv, Waiter, jittered};
use tokio::time::Instant;

use super::{Place, Places};
use crate::{
    dialect::Dialect,
    gate,
    look::Look,
    tunables::{LONGEST_LOOK, LONGEST_POLL, LOOK_AFTER_FAILURE, LOOK_PART, SHORTEST_LOOK},
};

/// What a waiter finds when it looks.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The lock was given to it, with this token.
    #[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "only it gives a lock away"))]
    Granted(FencingToken),
    /// The lock is free, and nobody goes before it.
    Free,
    /// It has to wait, with so many others before it, or more.
    Wait(u32),
}

/// A database with a table of places.
#[async_trait]
pub(crate) trait Queue: Dialect {
    /// What was given to a waiter is its own for so long, unless it renews it.
    const TURN: Duration;

    fn places(&self) -> &Places;

    /// Whether this client is woken when a lock is given to it; where not, its waiters look.
    fn is_woken(&self) -> bool;

    /// Looks, and changes nothing.
    async fn turn(&self, request: &Request) -> Result<Turn, Error>;

    /// Gives up a place, and what it was granted.
    async fn leave(&self, request: &Request) -> Result<(), Error>;
}

#[derive(Debug)]
pub(crate) struct QueueWaiter<D: Queue> {
    store: Arc<D>,
    request: Request,
    place: Arc<Place>,
    /// Whether there is a reason to look.
    is_due: bool,
    look: Look<Turn>,
    pace: Pace,
}

/// How soon turns come, as a waiter that is not woken has seen by its looks.
#[derive(Debug)]
struct Pace {
    /// How many others went before it, at the last look.
    before: Option<u32>,
    looked: Instant,
    /// How long a turn takes.
    turn: Duration,
    /// For how long nobody was served.
    still: Duration,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { before: None, looked: now, turn: Duration::ZERO, still: Duration::ZERO }
    }

    /// What a look has found.
    fn see(&mut self, before: u32, now: Instant) {
        let since = now - self.looked;
        match self.before.map_or(0, |last| last.saturating_sub(before)) {
            0 => self.still += since,
            served => (self.turn, self.still) = (since / served, Duration::ZERO),
        }
        (self.before, self.looked) = (Some(before), now);
    }

    /// The pause before the next look: a part of the time until the waiter's turn.
    fn pause(&self) -> Duration {
        let first = (self.turn.max(self.still) / LOOK_PART).clamp(SHORTEST_LOOK, LONGEST_LOOK);
        let turns = self.before.unwrap_or(0).saturating_add(1);
        first.saturating_mul(turns).min(LONGEST_POLL)
    }
}

impl<D: Queue> QueueWaiter<D> {
    /// Makes the place known here, before the store hears of it.
    pub(crate) fn new(store: Arc<D>, request: &Request) -> Self {
        let place = store.places().add(request);
        let (request, pace) = (request.clone(), Pace::new(Instant::now()));
        Self { store, request, place, is_due: false, look: Look::default(), pace }
    }

    async fn wait(&self) {
        if self.store.is_woken() {
            return self.place.woken().await;
        }
        tokio::time::sleep(jittered(&SystemEnv, self.pace.pause())).await;
    }
}

impl<D: Queue> Drop for QueueWaiter<D> {
    fn drop(&mut self) {
        self.store.places().remove(self.request.owner, &self.place);
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
            let Self { store, request, look, .. } = self;
            let begin = || {
                let (store, request) = (Arc::clone(store), request.clone());
                async move {
                    let _pass = gate::attempt(store.gate()).await?;
                    store.turn(&request).await
                }
            };
            let turn = match look.answer(begin).await {
                Ok(turn) => turn,
                // The core's own poll is behind this, and reports what it meets.
                Err(error) => {
                    tracing::debug!(name = %self.request.name, %error, "look failed");
                    tokio::time::sleep(LOOK_AFTER_FAILURE).await;
                    continue;
                }
            };
            self.is_due = false;
            match turn {
                Turn::Granted(token) => {
                    // It has left the queue. Where it asks once more, it was too late to take it.
                    self.place.doubt();
                    let grant = Grant::new(&self.request, token).with_mode(self.request.mode);
                    if grant.mode == Mode::Shared {
                        self.store.tell_next_reader(&self.request).await;
                    }
                    return Signal::Granted(grant.pushed(D::TURN));
                }
                Turn::Free => return Signal::Recheck,
                Turn::Wait(before) => self.pace.see(before, Instant::now()),
            }
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        // Every attempt of it was answered: one that never got as far as the queue has left nothing.
        if !self.place.is_entered() {
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
    fn a_waiter_looks_the_more_often_the_sooner_its_turn_comes() {
        let mut now = Instant::now();
        let mut pace = Pace::new(now);
        let mut look = |before, after| {
            now += Duration::from_millis(after);
            pace.see(before, now);
            pace.pause().as_millis()
        };
        assert_eq!(look(8, 2), 9);
        // Nobody is served for long.
        assert_eq!(look(8, 10_000), 450);
        // Then three are, in 120 ms at most.
        assert_eq!(look(5, 120), 60);
        assert_eq!(look(1, 40), 5);
        assert_eq!(look(0, 10), 2);
        assert_eq!(look(0, 80), 20);
        assert_eq!(look(0, 10_000), 50);
        assert_eq!(look(u32::MAX, 1), 500);
    }
}
