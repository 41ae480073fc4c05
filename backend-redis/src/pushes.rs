//! Who waits for pushes in this process.

use std::{
    collections::{HashMap, hash_map::Entry},
    str::FromStr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lock_core::{FencingToken, Grant, OwnerId, Request, Signal};
use tokio::sync::mpsc;

use crate::node::Listener;

/// Places of this client by owner, and the channel that they share.
#[derive(Debug)]
pub(crate) struct Pushes {
    channel: String,
    places: Mutex<HashMap<OwnerId, Place>>,
    /// Tells a place from the one that a repeat of its request entered later.
    entered: AtomicU64,
    /// Who hears all of it instead, where this server is one of several.
    listener: Option<Arc<dyn Listener>>,
}

#[derive(Debug)]
struct Place {
    number: u64,
    request: Request,
    wake: mpsc::UnboundedSender<Signal>,
}

impl Pushes {
    pub(crate) fn new(channel: String) -> Self {
        Self { channel, places: Mutex::default(), entered: AtomicU64::new(0), listener: None }
    }

    pub(crate) fn heard_by(channel: String, listener: Arc<dyn Listener>) -> Self {
        Self { listener: Some(listener), ..Self::new(channel) }
    }

    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }

    fn places(&self) -> MutexGuard<'_, HashMap<OwnerId, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a place, before the server hears of it.
    pub(crate) fn enter(&self, request: &Request) -> (u64, mpsc::UnboundedReceiver<Signal>) {
        let (wake, signals) = mpsc::unbounded_channel();
        let number = self.entered.fetch_add(1, Ordering::Relaxed);
        self.places().insert(request.owner, Place { number, request: request.clone(), wake });
        (number, signals)
    }

    pub(crate) fn remove(&self, owner: OwnerId, number: u64) {
        if let Entry::Occupied(place) = self.places().entry(owner)
            && place.get().number == number
        {
            place.remove();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        if let Some(listener) = &self.listener {
            return !listener.listens();
        }
        self.places().is_empty()
    }

    /// The server passed over this owner's place.
    pub(crate) fn lost(&self, owner: OwnerId) {
        if let Some(place) = self.places().remove(&owner) {
            // A turn that is gone needs no word.
            place.wake.send(Signal::Lost("the server passed over the place".into())).ok();
        }
    }

    /// Something may have been missed.
    pub(crate) fn recheck_all(&self) {
        if let Some(listener) = &self.listener {
            return listener.missed();
        }
        for place in self.places().values() {
            place.wake.send(Signal::Recheck).ok();
        }
    }

    /// A message: `owner token claim-ms`. Nobody else writes to this channel; one that is not
    /// understood costs a poll.
    pub(crate) fn deliver(&self, payload: &[u8]) {
        if let Some(listener) = &self.listener {
            return listener.hear(payload);
        }
        if let Some((owner, token, claim)) = parse(payload)
            && let Some(place) = self.places().get(&owner)
        {
            let grant = Grant::new(&place.request, token).pushed(claim);
            place.wake.send(Signal::Granted(grant)).ok();
        }
    }
}

fn parse(payload: &[u8]) -> Option<(OwnerId, FencingToken, Duration)> {
    let mut parts = std::str::from_utf8(payload).ok()?.split(' ');
    let owner = OwnerId::from_str(parts.next()?).ok()?;
    let token = FencingToken::new(parts.next()?.parse().ok()?)?;
    Some((owner, token, Duration::from_millis(parts.next()?.parse().ok()?)))
}
