//! A waiter's place: in the queue of the first store, then, holding that, in the second's.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::{Backend, Error, ErrorKind, Grant, OwnerId, Release, Request, Signal, Turn};

/// Those who wait, by owner.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<HashMap<OwnerId, Arc<Place>>>);

impl Places {
    pub(super) fn get(&self, owner: OwnerId) -> Option<Arc<Place>> {
        locked(&self.0).get(&owner).cloned()
    }

    pub(super) fn insert(&self, owner: OwnerId, place: Arc<Place>) {
        locked(&self.0).insert(owner, place);
    }

    pub(super) fn remove(&self, owner: OwnerId) -> Option<Arc<Place>> {
        locked(&self.0).remove(&owner)
    }

    /// A place that another has replaced is not this one's to remove.
    fn leave(&self, owner: OwnerId, place: &Arc<Place>) {
        let mut places = locked(&self.0);
        if places.get(&owner).is_some_and(|found| Arc::ptr_eq(found, place)) {
            places.remove(&owner);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What attempts and the turn of one owner share.
#[derive(Debug)]
pub(super) struct Place {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// The first store's grant, while the second is waited for.
    held: Option<Grant>,
    /// The place in a store's queue, until the turn has taken it over.
    turn: Option<Box<dyn Turn>>,
    /// How often the store that is waited for has changed.
    stage: u32,
    lost: Option<String>,
}

impl Place {
    fn new(held: Option<Grant>, turn: Option<Box<dyn Turn>>, lost: Option<String>) -> Self {
        let state = State { held, turn, stage: 1, lost };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    pub(super) fn first(turn: Box<dyn Turn>) -> Self {
        Self::new(None, Some(turn), None)
    }

    pub(super) fn second(held: Grant, turn: Option<Box<dyn Turn>>) -> Self {
        Self::new(Some(held), turn, None)
    }

    /// A place that only tells that its owner is used up.
    pub(super) fn lost(why: String) -> Self {
        Self::new(None, None, Some(why))
    }

    /// The first store's grant, if it is there by now.
    ///
    /// # Errors
    /// `Unavailable` once the place is lost: its owner asks for nothing more.
    pub(super) fn held(&self) -> Result<Option<Grant>, Error> {
        let state = locked(&self.state);
        match &state.lost {
            Some(why) => {
                Err(Error::new(ErrorKind::Unavailable, format!("the place is lost: {why}"))
                    .at("migration", "acquire"))
            }
            None => Ok(state.held.clone()),
        }
    }

    /// Keeps the first store's grant. `turn` is the place in the second, if it is new.
    pub(super) fn wait_for_second(&self, held: Grant, turn: Option<Box<dyn Turn>>) {
        let mut state = locked(&self.state);
        state.held = Some(held);
        if turn.is_some() {
            state.turn = turn;
            state.stage += 1;
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Both stores were granted: nothing is left to give up.
    pub(super) fn finish(&self) {
        let mut state = locked(&self.state);
        (state.held, state.turn) = (None, None);
        state.stage += 1;
    }

    /// Whatever it had was given back, or is to be cleaned up by the core.
    pub(super) fn lose(&self, why: String) {
        let mut state = locked(&self.state);
        (state.held, state.turn) = (None, None);
        state.stage += 1;
        state.lost.get_or_insert(why);
        drop(state);
        self.changed.notify_one();
    }
}

/// Waits in a place. A push of one store is only a reason to ask again.
#[derive(Debug)]
pub(super) struct MigrationTurn {
    stores: [Arc<dyn Backend>; 2],
    places: Arc<Places>,
    request: Request,
    place: Arc<Place>,
    turn: Option<Box<dyn Turn>>,
    stage: u32,
}

impl MigrationTurn {
    pub(super) fn new(
        stores: [Arc<dyn Backend>; 2],
        places: Arc<Places>,
        request: Request,
        place: Arc<Place>,
    ) -> Self {
        Self { stores, places, request, place, turn: None, stage: 0 }
    }

    /// Takes over what an attempt has changed; the reason if the place is lost.
    fn follow(&mut self) -> Option<String> {
        let mut state = locked(&self.place.state);
        if state.stage != self.stage {
            (self.turn, self.stage) = (state.turn.take(), state.stage);
        }
        state.lost.clone()
    }
}

impl Drop for MigrationTurn {
    fn drop(&mut self) {
        self.places.leave(self.request.owner, &self.place);
    }
}

#[async_trait]
impl Turn for MigrationTurn {
    async fn next(&mut self) -> Signal {
        loop {
            if let Some(why) = self.follow() {
                return Signal::Lost(why);
            }
            let changed = self.place.changed.notified();
            let Some(turn) = &mut self.turn else {
                changed.await;
                continue;
            };
            tokio::select! {
                biased;
                () = changed => {}
                signal = turn.next() => return match signal {
                    Signal::Granted(_) | Signal::Recheck => Signal::Recheck,
                    lost @ Signal::Lost(_) => lost,
                },
            }
        }
    }

    async fn leave(mut self: Box<Self>) -> Result<(), Error> {
        let lost = self.follow();
        let held = locked(&self.place.state).held.take();
        let left = match self.turn.take() {
            Some(turn) => turn.leave().await,
            // No longer in any queue, and what it had was not given back for certain.
            None if lost.is_some() => self.stores[1].abandon(&self.request).await,
            None => Ok(()),
        };
        let doubtful = held.as_ref().is_some_and(|held| held.doubtful);
        if let Some(held) = held.filter(|_| !doubtful) {
            self.stores[0].release(&held, Release::default()).await?;
        } else if doubtful || lost.is_some() {
            self.stores[0].abandon(&self.request).await?;
        }
        left
    }
}
