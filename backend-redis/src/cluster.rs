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
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisError, Value};

use crate::{error, failure::LastFailure, settings::Settings, topology::Place};

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
    map: Vec<Owned>,
    /// What nodes have said of single slots since.
    moved: HashMap<u16, Place>,
    /// All nodes that were ever named, to be asked.
    nodes: HashSet<Place>,
    /// Nodes that could not be used: what a map says of them is believed only if all say so.
    doubted: HashSet<Place>,
}

impl Known {
    fn owner(&self, slot: u16) -> Option<&Place> {
        let owner = self.moved.get(&slot).or_else(|| owner_in(&self.map, slot));
        owner.filter(|owner| !self.doubted.contains(owner))
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
            Error::new(ErrorKind::Unavailable, format!("no node serves slot {slot} of the cluster"))
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
        let mut failure = None;
        for some in nodes.chunks(ASKED_AT_ONCE) {
            if let Some(map) = self.ask_some(some, wanted, &mut failure).await {
                self.learn(map);
                return Ok(());
            }
        }
        let none = || Error::new(ErrorKind::Unavailable, "no node of the cluster answered");
        Err(failure.unwrap_or_else(none))
    }

    /// The map of one of these nodes: of one that names a usable owner, if there is one.
    async fn ask_some(
        &self,
        nodes: &[Place],
        wanted: u16,
        failure: &mut Option<Error>,
    ) -> Option<Vec<Owned>> {
        let mut asked: FuturesUnordered<_> = nodes.iter().map(|node| self.ask(node)).collect();
        let mut best: Option<Vec<Owned>> = None;
        loop {
            let answer = match best {
                None => asked.next().await,
                Some(_) => tokio::time::timeout(OTHERS, asked.next()).await.ok().flatten(),
            };
            match answer {
                Some(Ok(map)) => {
                    let owner = owner_in(&map, wanted);
                    let trusted = owner.is_some_and(|owner| !self.known().doubted.contains(owner));
                    if trusted || best.is_none() {
                        best = Some(map);
                    }
                    if trusted {
                        break;
                    }
                }
                // What an operator has to mend says more than a node that is down.
                Some(Err(error)) => match &failure {
                    Some(known) if !Error::is_retryable(known) => {}
                    _ => *failure = Some(error),
                },
                None => break,
            }
        }
        best
    }

    fn learn(&self, map: Vec<Owned>) {
        let mut known = self.known();
        known.doubted.clear();
        known.moved.clear();
        known.nodes = self.seeds.iter().cloned().collect();
        known.nodes.extend(map.iter().flat_map(|owned| owned.nodes.iter().cloned()));
        known.map = map;
    }

    async fn ask(&self, node: &Place) -> Result<Vec<Owned>, Error> {
        let limit = self.settings.timeout;
        let answer = tokio::time::timeout(limit, self.exchange(node)).await.unwrap_or_else(|_| {
            let shown = humantime::format_duration(limit);
            Err(Error::new(ErrorKind::Unavailable, format!("no answer of a node within {shown}")))
        });
        read(answer?, node)
    }

    async fn exchange(&self, node: &Place) -> Result<Value, Error> {
        let asked = async {
            let client = self.settings.client(node, ProtocolVersion::RESP2)?;
            let config = AsyncConnectionConfig::new()
                .set_response_timeout(None)
                .set_connection_timeout(Some(self.settings.timeout));
            let mut connection =
                client.get_multiplexed_async_connection_with_config(&config).await?;
            let mut ask = redis::cmd("CLUSTER");
            connection.send_packed_command(ask.arg("SLOTS")).await?.extract_error()
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

/// A range of slots, with its master first.
#[derive(Debug, PartialEq, Eq)]
struct Owned {
    first: u16,
    last: u16,
    nodes: Vec<Place>,
}

fn owner_in(map: &[Owned], slot: u16) -> Option<&Place> {
    map.iter().find(|owned| (owned.first..=owned.last).contains(&slot))?.nodes.first()
}

/// Reads CLUSTER SLOTS: of each range first slot, last slot, and its nodes.
fn read(answer: Value, asked: &Place) -> Result<Vec<Owned>, Error> {
    let understood = || -> Option<Vec<Owned>> {
        let Value::Array(ranges) = answer else { return None };
        let mut map = Vec::new();
        for range in ranges {
            let Value::Array(parts) = range else { return None };
            let slot = |at: usize| match parts.get(at) {
                Some(Value::Int(slot)) => u16::try_from(*slot).ok(),
                _ => None,
            };
            let nodes = parts.iter().skip(2).filter_map(|node| {
                let Value::Array(node) = node else { return None };
                let Some(Value::Int(port)) = node.get(1) else { return None };
                let host = match node.first()? {
                    Value::BulkString(host) => std::str::from_utf8(host).ok()?,
                    // The node does not know how it is reached: by the way that it was.
                    Value::Nil => "",
                    _ => return None,
                };
                asked.beside(host, u16::try_from(*port).ok()?)
            });
            map.push(Owned { first: slot(0)?, last: slot(1)?, nodes: nodes.collect() });
        }
        Some(map)
    };
    let not_understood = || Error::new(ErrorKind::Config, "CLUSTER SLOTS was not understood");
    understood().ok_or_else(not_understood)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_a_node_without_a_name_is_where_it_was_asked() {
        let node = |host: Value, port| Value::Array(vec![host, Value::Int(port)]);
        let text = |text: &str| Value::BulkString(text.into());
        let range = |first, last, nodes: Vec<Value>| {
            Value::Array([vec![Value::Int(first), Value::Int(last)], nodes].concat())
        };
        let answer = Value::Array(vec![
            range(0, 8000, vec![node(text("a"), 1), node(text("b"), 2)]),
            range(8001, 16383, vec![node(Value::Nil, 3), node(text("?"), 4)]),
        ]);
        let map = read(answer, &Place::Tcp("seed".into(), 9)).unwrap();
        assert_eq!(owner_in(&map, 8001), Some(&Place::Tcp("seed".into(), 3)));
        assert_eq!(owner_in(&map, 8000), Some(&Place::Tcp("a".into(), 1)));
        assert_eq!(map[1].nodes.len(), 1);
        assert!(read(Value::Nil, &Place::Tcp("seed".into(), 9)).is_err());
    }
}
