//! Which node of a cluster serves which slot.
//!
//! The map is learned from `CLUSTER SLOTS` and corrected by MOVED. It is only where to look: a node that
//! does not serve a slot refuses, and one that calls itself a master and is none any more stops within
//! the margin that the quarantine waits.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use lock_core::{Env as _, Error, ErrorKind, SystemEnv};
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, RedisError, Value};

use crate::{
    connection::Connection,
    error,
    failure::LastFailure,
    settings::Settings,
    shards::{Owner, Shards},
    topology::Place,
};

/// How long other nodes are waited for after the first has answered.
const OTHERS: Duration = Duration::from_millis(100);

/// A large cluster is not asked as a whole.
const ASKED_AT_ONCE: usize = 6;

/// What is known of a cluster.
pub(crate) struct Map {
    settings: Settings,
    seeds: Vec<Place>,
    known: Mutex<Known>,
    /// Whoever asks the nodes holds it.
    asking: tokio::sync::Mutex<LastFailure>,
}

#[derive(Default)]
struct Known {
    map: Shards,
    /// The ids of its nodes, by the last map that named any.
    ids: HashSet<String>,
    /// What nodes have said of single slots since.
    moved: HashMap<u16, Place>,
    /// All nodes that were ever named, to be asked.
    nodes: HashSet<Place>,
    /// Nodes that could not be used: what a map says of them is believed only if all say so.
    doubted: HashSet<Place>,
}

impl Known {
    fn owner(&self, slot: u16) -> Option<&Place> {
        let mapped = || match self.map.owner(slot) {
            Owner::At(place) => Some(place),
            Owner::Nobody | Owner::Unnamed => None,
        };
        let owner = self.moved.get(&slot).or_else(mapped);
        owner.filter(|owner| !self.doubted.contains(owner))
    }
}

/// What came of asking.
#[derive(Default)]
struct Heard {
    /// What is said of another cluster at a place where the store is said to be. Where no node of the one
    /// that was known is left to contradict, it was made anew: whoever connects now finds this one, too.
    other: Option<(Place, Shards)>,
    failure: Option<Error>,
}

impl Heard {
    fn fail(&mut self, error: Error) {
        // What an operator has to mend says more than a node that is down.
        if self.failure.as_ref().is_none_or(Error::is_retryable) {
            self.failure = Some(error);
        }
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("seeds", &self.seeds).finish_non_exhaustive()
    }
}

impl Map {
    pub(crate) fn new(seeds: &[Place], settings: &Settings) -> Arc<Self> {
        let known = Known { nodes: seeds.iter().cloned().collect(), ..Known::default() };
        Arc::new(Self {
            settings: settings.clone(),
            seeds: seeds.to_vec(),
            known: Mutex::new(known),
            asking: tokio::sync::Mutex::default(),
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owner(&self, slot: u16) -> Option<Place> {
        self.known().owner(slot).cloned()
    }

    /// Where a slot is served; asks the nodes if that is not known.
    pub(crate) async fn locate(&self, slot: u16) -> Result<Place, Error> {
        if let Some(place) = self.owner(slot) {
            return Ok(place);
        }
        let asked = SystemEnv.now();
        let mut last = self.asking.lock().await;
        if let Some(place) = self.owner(slot) {
            return Ok(place);
        }
        if let Some(error) = last.since(asked) {
            return Err(error);
        }
        let refreshed = self.refresh(slot).await;
        last.note(&refreshed, SystemEnv.now());
        refreshed?;
        self.owner(slot).ok_or_else(|| {
            let message = match self.known().map.owner(slot) {
                Owner::Unnamed => error::NO_HOST_NAME.to_owned(),
                _ => format!("no node serves slot {slot} of the cluster"),
            };
            Error::new(ErrorKind::Unavailable, message)
        })
    }

    /// A node said that another one serves this slot.
    pub(crate) fn moved(&self, slot: u16, place: &Place) {
        let mut known = self.known();
        known.nodes.insert(place.clone());
        known.doubted.remove(place);
        known.moved.insert(slot, place.clone());
    }

    /// A node cannot be used, or is no master: all that it served is looked for anew.
    pub(crate) fn doubt(&self, place: &Place) {
        self.known().doubted.insert(place.clone());
    }

    async fn refresh(&self, wanted: u16) -> Result<(), Error> {
        let nodes = {
            let known = self.known();
            let mut nodes: Vec<Place> = known.nodes.iter().cloned().collect();
            nodes.sort_by_key(|node| known.doubted.contains(node));
            nodes
        };
        let mut heard = Heard::default();
        for some in nodes.chunks(ASKED_AT_ONCE) {
            if let Some(map) = self.ask_some(some, wanted, &mut heard).await? {
                self.learn(map);
                return Ok(());
            }
        }
        if let Some((place, map)) = heard.other {
            tracing::warn!(node = %place, "the cluster is another than before");
            self.learn(map);
            return Ok(());
        }
        let none = || Error::new(ErrorKind::Unavailable, "no node of the cluster answered");
        Err(heard.failure.unwrap_or_else(none))
    }

    /// The map of one of these nodes: of one that names a usable owner, if there is one.
    async fn ask_some(
        &self,
        nodes: &[Place],
        wanted: u16,
        heard: &mut Heard,
    ) -> Result<Option<Shards>, Error> {
        let ours = self.known().ids.clone();
        let ask = |node| async move { (node, self.ask(node).await) };
        let mut asked: FuturesUnordered<_> = nodes.iter().map(ask).collect();
        let mut best: Option<Shards> = None;
        loop {
            let answer = match best {
                None => asked.next().await,
                Some(_) => tokio::time::timeout(OTHERS, asked.next()).await.ok().flatten(),
            };
            match answer {
                Some((place, Ok(map))) if !map.may_be_of(&ours) => {
                    heard.fail(another_cluster(place));
                    if self.seeds.contains(place) {
                        differ(heard.other.as_ref().map(|(_, other)| other), &map)?;
                        heard.other = Some((place.clone(), map));
                    }
                }
                Some((_, Ok(map))) => {
                    // Of those that were given, each might be the one that is meant.
                    if ours.is_empty() {
                        differ(best.as_ref(), &map)?;
                    }
                    let owner = map.owner(wanted);
                    let trusted =
                        matches!(owner, Owner::At(owner) if !self.known().doubted.contains(owner));
                    if trusted || best.is_none() {
                        best = Some(map);
                    }
                    if trusted && !ours.is_empty() {
                        break;
                    }
                }
                Some((_, Err(error))) => heard.fail(error),
                None => break,
            }
        }
        Ok(best)
    }

    fn learn(&self, map: Shards) {
        let mut known = self.known();
        known.doubted.clear();
        known.moved.clear();
        known.nodes = self.seeds.iter().cloned().collect();
        known.nodes.extend(map.places.iter().cloned());
        if !map.ids.is_empty() {
            known.ids.clone_from(&map.ids);
        }
        known.map = map;
    }

    /// What to ask a node on a new connection, for [`recognise`](Self::recognise).
    pub(crate) fn question() -> Cmd {
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        question
    }

    /// Whether the node at `place` is one of this cluster. Another may have its address now: it would
    /// grant what it knows nothing of, since it serves the same slots.
    ///
    /// # Errors
    /// `Unavailable` for a node of another cluster.
    pub(crate) fn recognise(&self, place: &Place, answer: Value) -> Result<(), Error> {
        let told = Shards::read(answer, place)?;
        if told.may_be_of(&self.known().ids) { Ok(()) } else { Err(another_cluster(place)) }
    }

    async fn ask(&self, node: &Place) -> Result<Shards, Error> {
        let limit = self.settings.timeout;
        let answer = tokio::time::timeout(limit, self.exchange(node)).await.unwrap_or_else(|_| {
            let shown = humantime::format_duration(limit);
            Err(Error::new(ErrorKind::Unavailable, format!("no answer of a node within {shown}")))
        });
        Shards::read(answer?, node)
    }

    async fn exchange(&self, node: &Place) -> Result<Value, Error> {
        let asked = async {
            let login = self.settings.login(ProtocolVersion::RESP2);
            let config = AsyncConnectionConfig::new().set_response_timeout(None);
            let connection = Connection::open(&self.settings, node, &login, config).await?;
            connection.send(&Self::question()).await?.extract_error()
        };
        asked.await.map_err(|error: RedisError| {
            if error.detail().is_some_and(|detail| detail.contains("cluster support disabled")) {
                let message = "the server is no part of a cluster; use redis:// for one server";
                return Error::new(ErrorKind::Config, message).with_source(error);
            }
            error::of_connecting(&error)
        })
    }
}

fn another_cluster(place: &Place) -> Error {
    let message = format!("the node at {place} is part of another cluster now");
    Error::new(ErrorKind::Unavailable, message)
}

/// # Errors
/// `Config` where nodes that were given tell of different clusters.
fn differ(one: Option<&Shards>, other: &Shards) -> Result<(), Error> {
    if one.is_none_or(|one| other.may_be_of(&one.ids)) {
        return Ok(());
    }
    let message = "the nodes are of different clusters; allowed are nodes of one";
    Err(Error::new(ErrorKind::Config, message))
}
