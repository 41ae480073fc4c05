//! Who waits in this process, and what wakes it: the nodes' word that it stands first.

use std::{
    collections::{BTreeSet, HashMap},
    str::FromStr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use backend_redis::node::Listener;
use lock_core::{Error, OwnerId, Request, Signal, Turn};
use tokio::{sync::mpsc, time::Instant};

use crate::quorum::Quorum;

/// How long a place waits for a majority of the nodes to call it, once one has.
const GRACE: Duration = Duration::from_millis(5);

/// What an attempt needs to take a place.
#[derive(Clone, Debug)]
pub(crate) struct Ticket {
    pub(crate) channel: String,
    /// The nodes' clock when the place was first asked for: first come, first called, on all alike.
    pub(crate) rank: u64,
    /// The nodes that may have given the place, as all attempts of its owner found.
    given: Arc<Mutex<BTreeSet<usize>>>,
}

impl Ticket {
    pub(crate) fn may_be_given_by(&self, nodes: impl IntoIterator<Item = usize>) {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).extend(nodes);
    }

    pub(crate) fn given(&self) -> BTreeSet<usize> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The places of this client by owner.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    places: Mutex<HashMap<OwnerId, Place>>,
    count: AtomicUsize,
    entered: AtomicU64,
}

#[derive(Debug)]
struct Place {
    number: u64,
    ticket: Ticket,
    called: mpsc::UnboundedSender<Called>,
}

#[derive(Clone, Copy, Debug)]
enum Called {
    By(usize),
    Missed,
}

impl Wake {
    fn places(&self) -> MutexGuard<'_, HashMap<OwnerId, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ticket of a place that is there.
    pub(crate) fn ticket(&self, owner: OwnerId) -> Option<Ticket> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.places().get(&owner).map(|place| place.ticket.clone())
    }

    fn all(&self, word: Called) {
        for place in self.places().values() {
            // A turn that is gone needs no word.
            place.called.send(word).ok();
        }
    }
}

/// What one node says.
#[derive(Debug)]
pub(crate) struct Ear {
    pub(crate) wake: Arc<Wake>,
    pub(crate) at: usize,
}

impl Listener for Ear {
    fn listens(&self) -> bool {
        self.wake.count.load(Ordering::SeqCst) > 0
    }

    fn hear(&self, message: &[u8]) {
        // One that is not understood costs a poll.
        if let Ok(text) = std::str::from_utf8(message)
            && let Ok(owner) = OwnerId::from_str(text)
            && let Some(place) = self.wake.places().get(&owner)
        {
            place.called.send(Called::By(self.at)).ok();
        }
    }

    fn missed(&self) {
        self.wake.all(Called::Missed);
    }
}

/// A place in the nodes' queues.
#[derive(Debug)]
pub(crate) struct Waiting {
    quorum: Arc<Quorum>,
    request: Request,
    number: u64,
    called: mpsc::UnboundedReceiver<Called>,
    /// Which nodes have called since the last recheck, and until when more are waited for.
    by: Vec<usize>,
    until: Option<Instant>,
}

impl Waiting {
    /// Enters a place, before the nodes hear of it. A repeat keeps its rank.
    pub(crate) fn enter(quorum: &Arc<Quorum>, request: &Request, rank: u64) -> (Self, Ticket) {
        let wake = &quorum.wake;
        let (called, receiver) = mpsc::unbounded_channel();
        let number = wake.entered.fetch_add(1, Ordering::Relaxed);
        let mut places = wake.places();
        let channel = quorum.peers[0].node.channel().to_owned();
        let ticket = match places.get(&request.owner) {
            Some(place) => place.ticket.clone(),
            None => Ticket { channel, rank, given: Arc::default() },
        };
        places.insert(request.owner, Place { number, ticket: ticket.clone(), called });
        wake.count.store(places.len(), Ordering::SeqCst);
        drop(places);
        let (quorum, request) = (Arc::clone(quorum), request.clone());
        let place = Self { quorum, request, number, called: receiver, by: Vec::new(), until: None };
        (place, ticket)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let wake = &self.quorum.wake;
        let mut places = wake.places();
        if places.get(&self.request.owner).is_some_and(|place| place.number == self.number) {
            places.remove(&self.request.owner);
        }
        wake.count.store(places.len(), Ordering::SeqCst);
    }
}

#[async_trait]
impl Turn for Waiting {
    async fn next(&mut self) -> Signal {
        loop {
            let grace = async {
                match self.until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                word = self.called.recv() => match word {
                    Some(Called::By(at)) => {
                        if !self.by.contains(&at) {
                            self.by.push(at);
                        }
                        if self.by.len() < self.quorum.majority() {
                            self.until.get_or_insert_with(|| Instant::now() + GRACE);
                            continue;
                        }
                    }
                    Some(Called::Missed) => {}
                    None => return Signal::Lost("the place was taken by a repeat".into()),
                },
                () = grace => {}
            }
            self.by.clear();
            self.until = None;
            return Signal::Recheck;
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Error> {
        let left = self.quorum.abandon(&self.request).await;
        left.map_err(|error| error.at("redlock", "leave").on(&self.request.name))
    }
}
