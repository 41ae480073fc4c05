//! A waiter's entry: first in the queue of the first store and then, while it holds that store, in
//! the queue of the second.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use lock_core::{
    Backend, Error, ErrorKind, Grant, Mutex, OwnerId, ReleaseOptions, Request, Signal, Waiter,
};
use tokio::sync::Notify;

/// The entries of all waiters, by owner.
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

    /// Removes this entry, but not one of the same owner that has replaced it.
    fn remove_same(&self, owner: OwnerId, entry: &Arc<Entry>) {
        let mut entries = self.0.lock();
        if entries.get(&owner).is_some_and(|found| Arc::ptr_eq(found, entry)) {
            entries.remove(&owner);
        }
    }
}

/// The state that the attempts and the waiter of one owner share.
#[derive(Debug)]
pub(super) struct Entry {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// The first store's grant, while the second is waited for.
    held: Option<Grant>,
    /// A new waiter of a store, until [`BothWaiter`] takes it over.
    waiter: Option<Box<dyn Waiter>>,
    /// How often `waiter` has changed.
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

    /// An entry that is lost from the beginning, because its owner is used up.
    pub(super) fn lost(why: String) -> Self {
        Self::new(None, None, Some(why))
    }

    /// The first store's grant, if it has one by now.
    ///
    /// # Errors
    /// `Unavailable` if the entry is lost: its owner must not acquire any more.
    pub(super) fn held(&self) -> Result<Option<Grant>, Error> {
        let state = self.state.lock();
        match &state.lost {
            Some(why) => {
                Err(Error::new(ErrorKind::Unavailable, format!("the queue entry is lost: {why}"))
                    .at("migration", "acquire"))
            }
            None => Ok(state.held.clone()),
        }
    }

    /// Sets the first store's grant, and the waiter of the second store, if there is a new one.
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

    /// Call this after a grant in both stores: nothing is left to release.
    pub(super) fn finish(&self) {
        let mut state = self.state.lock();
        (state.held, state.waiter) = (None, None);
        state.stage += 1;
    }

    /// Makes the entry lost. Its grants were released, or the core cleans them up.
    pub(super) fn lose(&self, why: String) {
        let mut state = self.state.lock();
        (state.held, state.waiter) = (None, None);
        state.stage += 1;
        state.lost.get_or_insert(why);
        drop(state);
        self.changed.notify_one();
    }
}

/// Waits in an entry. After a push of one store, the core must try again.
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

    /// Takes over what an attempt has changed. Returns the reason if the entry is lost.
    fn update(&mut self) -> Option<String> {
        let mut state = self.entry.state.lock();
        if state.stage != self.stage {
            (self.waiter, self.stage) = (state.waiter.take(), state.stage);
        }
        state.lost.clone()
    }
}

impl Drop for BothWaiter {
    fn drop(&mut self) {
        self.entries.remove_same(self.request.owner, &self.entry);
    }
}

#[async_trait]
impl Waiter for BothWaiter {
    async fn next(&mut self) -> Signal {
        loop {
            if let Some(why) = self.update() {
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
        let lost = self.update();
        let held = self.entry.state.lock().held.take();
        let left = match self.waiter.take() {
            Some(waiter) => waiter.leave().await,
            // It is in no queue any more, and it is not certain that its grant was released.
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
