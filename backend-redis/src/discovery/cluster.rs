//! Which node of a cluster serves which slot.
//!
//! The client reads the map from `CLUSTER SLOTS` and corrects it by MOVED. The map only says where
//! to ask: a node that does not serve a slot refuses, and a node that still takes itself for a
//! master stops within the margin of the quarantine.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, MutexGuard},
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use lock_core::{Env as _, Error, ErrorKind, Mutex, SystemEnv};
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, RedisConnectionInfo, RedisError, Value};
use tokio::time::{Instant, timeout_at};

use crate::{
    connection::{error, last_failure::LastFailure, socket::Socket},
    discovery::shards::{Owner, Shards},
    settings::{Address, Settings},
    tunables::{NODES_ASKED_AT_ONCE, OTHER_ANSWERS},
};

/// The known map of a cluster.
pub(crate) struct Map {
    settings: Settings,
    seeds: Vec<Address>,
    known: Mutex<MapState>,
    /// Held while the client asks the nodes.
    asking: tokio::sync::Mutex<LastFailure>,
}

#[derive(Default)]
struct MapState {
    map: Shards,
    /// The ids of the nodes, from the last map that had any.
    ids: HashSet<String>,
    /// Newer owners of single slots, from MOVED.
    moved: HashMap<u16, Address>,
    /// All nodes that were ever named. The client may ask each of them.
    nodes: HashSet<Address>,
    /// Nodes that could not be used. What their maps say counts only if all maps say so.
    doubted: HashSet<Address>,
}

impl MapState {
    fn owner(&self, slot: u16) -> Option<&Address> {
        let mapped = || match self.map.owner(slot) {
            Owner::At(address) => Some(address),
            Owner::Nobody | Owner::Unnamed => None,
        };
        let owner = self.moved.get(&slot).or_else(mapped);
        owner.filter(|owner| !self.doubted.contains(owner))
    }
}

/// The results of asking nodes.
#[derive(Default)]
struct AskResults {
    /// The map of another cluster at an address of the store. If no node of the known cluster is
    /// left to contradict, the cluster was made anew: a client that connects now finds this one,
    /// too.
    other: Option<(Address, Shards)>,
    failure: Option<Error>,
}

impl AskResults {
    fn fail(&mut self, error: Error) {
        // An error that an operator must correct says more than a node that is down.
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
    pub(crate) fn new(seeds: &[Address], settings: &Settings) -> Arc<Self> {
        let known = MapState { nodes: seeds.iter().cloned().collect(), ..MapState::default() };
        Arc::new(Self {
            settings: settings.clone(),
            seeds: seeds.to_vec(),
            known: Mutex::new(known),
            asking: tokio::sync::Mutex::default(),
        })
    }

    fn known(&self) -> MutexGuard<'_, MapState> {
        self.known.lock()
    }

    fn owner(&self, slot: u16) -> Option<Address> {
        self.known().owner(slot).cloned()
    }

    /// The node that serves a slot. Asks the nodes if it is not known.
    pub(crate) async fn locate(&self, slot: u16) -> Result<Address, Error> {
        if let Some(address) = self.owner(slot) {
            return Ok(address);
        }
        let asked = SystemEnv.now();
        let mut last = self.asking.lock().await;
        if let Some(address) = self.owner(slot) {
            return Ok(address);
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

    /// A node answered that another one serves this slot.
    pub(crate) fn moved(&self, slot: u16, address: &Address) {
        let mut known = self.known();
        known.nodes.insert(address.clone());
        known.doubted.remove(address);
        known.moved.insert(slot, address.clone());
    }

    /// A node cannot be used, or is not a master. The client searches anew for all slots that it
    /// served.
    pub(crate) fn doubt(&self, address: &Address) {
        self.known().doubted.insert(address.clone());
    }

    async fn refresh(&self, wanted: u16) -> Result<(), Error> {
        let nodes = {
            let known = self.known();
            let mut nodes: Vec<Address> = known.nodes.iter().cloned().collect();
            nodes.sort_by_key(|node| known.doubted.contains(node));
            nodes
        };
        let mut results = AskResults::default();
        for some in nodes.chunks(NODES_ASKED_AT_ONCE) {
            if let Some(map) = self.ask_some(some, wanted, &mut results).await? {
                self.learn(map);
                return Ok(());
            }
        }
        if let Some((address, map)) = results.other {
            tracing::warn!(target: "leasehold", node = %address, "the cluster is another than before");
            self.learn(map);
            return Ok(());
        }
        let none = || Error::new(ErrorKind::Unavailable, "no node of the cluster answered");
        Err(results.failure.unwrap_or_else(none))
    }

    /// The map from one of these nodes: from one whose map names a usable owner, if there is one.
    async fn ask_some(
        &self,
        nodes: &[Address],
        wanted: u16,
        results: &mut AskResults,
    ) -> Result<Option<Shards>, Error> {
        let ours = self.known().ids.clone();
        let ask = |node| async move { (node, self.ask(node).await) };
        let mut asked: FuturesUnordered<_> = nodes.iter().map(ask).collect();
        let mut best: Option<Shards> = None;
        loop {
            let answer = match best {
                None => asked.next().await,
                Some(_) => tokio::time::timeout(OTHER_ANSWERS, asked.next()).await.ok().flatten(),
            };
            match answer {
                Some((address, Ok(map))) if !map.may_be_of(&ours) => {
                    results.fail(another_cluster(address));
                    if self.seeds.contains(address) {
                        differ(results.other.as_ref().map(|(_, other)| other), &map)?;
                        results.other = Some((address.clone(), map));
                    }
                }
                Some((_, Ok(map))) => {
                    // The user gave these addresses, and each might be the intended cluster.
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
                Some((_, Err(error))) => results.fail(error),
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
        known.nodes.extend(map.addresses.iter().cloned());
        if !map.ids.is_empty() {
            known.ids.clone_from(&map.ids);
        }
        known.map = map;
    }

    /// The question for a node on a new connection. [`recognise`](Self::recognise) reads the
    /// answer.
    pub(crate) fn question() -> Cmd {
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        question
    }

    /// Checks that the node at `address` belongs to this cluster. A node of another cluster may
    /// have the address now. It serves the same slots, and would grant locks that are held here.
    ///
    /// # Errors
    /// `Unavailable` for a node of another cluster.
    pub(crate) fn recognise(&self, address: &Address, answer: Value) -> Result<(), Error> {
        let map = Shards::read(answer, address)?;
        if map.may_be_of(&self.known().ids) { Ok(()) } else { Err(another_cluster(address)) }
    }

    async fn ask(&self, node: &Address) -> Result<Shards, Error> {
        let by = Instant::now() + self.settings.timeout;
        let login = self.settings.login(ProtocolVersion::RESP2, by).await?;
        let answer = timeout_at(by, self.exchange(node, &login)).await.unwrap_or_else(|_| {
            let shown = humantime::format_duration(self.settings.timeout);
            Err(Error::new(ErrorKind::Unavailable, format!("no answer of a node within {shown}")))
        });
        Shards::read(answer.map_err(|error| error.on_server(node))?, node)
    }

    async fn exchange(&self, node: &Address, login: &RedisConnectionInfo) -> Result<Value, Error> {
        let asked = async {
            let config = AsyncConnectionConfig::new().set_response_timeout(None);
            let connection = Socket::open(&self.settings, node, login, config).await?;
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

fn another_cluster(address: &Address) -> Error {
    let message = format!("the node at {address} is part of another cluster now");
    Error::new(ErrorKind::Unavailable, message)
}

/// # Errors
/// `Config` if the given nodes describe different clusters.
fn differ(one: Option<&Shards>, other: &Shards) -> Result<(), Error> {
    if one.is_none_or(|one| other.may_be_of(&one.ids)) {
        return Ok(());
    }
    let message = "the nodes belong to different clusters; all must belong to one";
    Err(Error::new(ErrorKind::Config, message))
}
