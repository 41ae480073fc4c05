//! A waiter's entry: in the queue of the first store, then, holding that, in the second's.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use lock_core::{
    Backend, Error, ErrorKind, Grant, Mutex, OwnerId, ReleaseOptions, Request, Signal, Waiter,
};
use tokio::sync::Notify;

/// The entries of those that wait, by owner.
#[derive(Debug, Default)]
pub(super) struct Entries(Mutex<HashMap<OwnerId, Arc<Entry>>>);

impl Entries {
    pub(super) fn get(&self, owner: OwnerId) -> Option<Arc<Entry>> {
        self.0.lock().get(&owner).cloned()
    }

    pub(super) fn insert(&self, owner: OwnerId, entry: Arc<Entry>) {
        self.0.lock().insert(owner, entry);
    }

    pub(super) fn remove(&self, owner: OwnerId) -> Option<Arc<Entry>> {
        self.0.lock().remove(&owner)
    }

    /// Leaves an entry of the same owner that has replaced this one.
    fn leave(&self, owner: OwnerId, entry: &Arc<Entry>) {
        let mut entries = self.0.lock();
        if entries.get(&owner).is_some_and(|found| Arc::ptr_eq(found, entry)) {
            entries.remove(&owner);
        }
    }
}

/// The part that the attempts and the waiter of one owner share.
#[derive(Debug)]
pub(super) struct Entry {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// The first store's grant, while the second is waited for.
    held: Option<Grant>,
    /// The place in a store's queue, until this waiter has taken it over.
    waiter: Option<Box<dyn Waiter>>,
    /// How often the store that is waited for has changed.
    stage: u32,
    lost: Option<String>,
}

impl Entry {
    fn new(held: Option<Grant>, waiter: Option<Box<dyn Waiter>>, lost: Option<String>) -> Self {
        let state = State { held, waiter, stage: 1, lost };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    pub(super) fn first(waiter: Box<dyn Waiter>) -> Self {
        Self::new(None, Some(waiter), None)
    }

    pub(super) fn second(held: Grant, waiter: Option<Box<dyn Waiter>>) -> Self {
        Self::new(Some(held), waiter, None)
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
        let state = self.state.lock();
        match &state.lost {
            Some(why) => {
                Err(Error::new(ErrorKind::Unavailable, format!("the place is lost: {why}"))
                    .at("migration", "acquire"))
            }
            None => Ok(state.held.clone()),
        }
    }

    /// Keeps the first store's grant. `waiter` is the place in the second, if it is new.
    pub(super) fn wait_for_second(&self, held: Grant, waiter: Option<Box<dyn Waiter>>) {
        let mut state = self.state.lock();
        state.held = Some(held);
        if waiter.is_some() {
            state.waiter = waiter;
            state.stage += 1;
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Both stores were granted: nothing is left to give up.
    pub(super) fn finish(&self) {
        let mut state = self.state.lock();
        (state.held, state.waiter) = (None, None);
        state.stage += 1;
    }

    /// Its grants were given back, or the core cleans them up.
    pub(super) fn lose(&self, why: String) {
        let mut state = self.state.lock();
        (state.held, state.waiter) = (None, None);
        state.stage += 1;
        state.lost.get_or_insert(why);
        drop(state);
        self.changed.notify_one();
    }
}

/// Waits in a place. A push of one store is only a reason to ask again.
#[derive(Debug)]
pub(super) struct BothWaiter {
    stores: [Arc<dyn Backend>; 2],
    entries: Arc<Entries>,
    request: Request,
    entry: Arc<Entry>,
    waiter: Option<Box<dyn Waiter>>,
    stage: u32,
}

impl BothWaiter {
    pub(super) fn new(
        stores: [Arc<dyn Backend>; 2],
        entries: Arc<Entries>,
        request: Request,
        entry: Arc<Entry>,
    ) -> Self {
        Self { stores, entries, request, entry, waiter: None, stage: 0 }
    }

    /// Takes over what an attempt has changed; the reason if the place is lost.
    fn follow(&mut self) -> Option<String> {
        let mut state = self.entry.state.lock();
        if state.stage != self.stage {
            (self.waiter, self.stage) = (state.waiter.take(), state.stage);
        }
        state.lost.clone()
    }
}

impl Drop for BothWaiter {
    fn drop(&mut self) {
        self.entries.leave(self.request.owner, &self.entry);
    }
}

#[async_trait]
impl Waiter for BothWaiter {
    async fn next(&mut self) -> Signal {
        loop {
            if let Some(why) = self.follow() {
                return Signal::Lost(why);
            }
            let changed = self.entry.changed.notified();
            let Some(waiter) = &mut self.waiter else {
                changed.await;
                continue;
            };
            tokio::select! {
                biased;
                () = changed => {}
                signal = waiter.next() => return match signal {
                    Signal::Granted(_) | Signal::Recheck => Signal::Recheck,
                    lost @ Signal::Lost(_) => lost,
                },
            }
        }
    }

    async fn leave(mut self: Box<Self>) -> Result<(), Error> {
        let lost = self.follow();
        let held = self.entry.state.lock().held.take();
        let left = match self.waiter.take() {
            Some(waiter) => waiter.leave().await,
            // No longer in any queue, and what it had was not given back for certain.
            None if lost.is_some() => self.stores[1].abandon(&self.request).await,
            None => Ok(()),
        };
        let doubtful = held.as_ref().is_some_and(|held| held.doubtful);
        if let Some(held) = held.filter(|_| !doubtful) {
            self.stores[0].release(&held, ReleaseOptions::default()).await?;
        } else if doubtful || lost.is_some() {
            self.stores[0].abandon(&self.request).await?;
        }
        left
    }
}
