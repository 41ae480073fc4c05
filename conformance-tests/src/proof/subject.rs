//! What is tried, and what is expected of it: data.

use std::{any::Any, sync::Arc, time::Duration};

use lock_core::{Backend, BoxFuture, Error, Guarantees};
use serde::Serialize;

use super::Fault;
use crate::{
    SetUpError,
    kit::{Proxy, Server},
};

/// What a run is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Guarantee {
    /// S1: what two holders believed never overlaps.
    Exclusion,
    /// S2: tokens increase over the grants of a name.
    Tokens,
    /// S5: a lost guard stays lost.
    NoResurrection,
    /// A register behind a fence lost no update and took no stale write.
    Fence,
    /// L5: a loss is told when the validity ends.
    LossTold,
    /// L1, L2: the lock was free again in time, and everybody who waited was served.
    Served,
    /// S6, L6: no lock is left when all have ended.
    NothingLeft,
    /// A register that asks for no token lost no update. No lock can promise it: see the README.
    Unfenced,
}

impl Guarantee {
    /// All, in the order of the table.
    pub const ALL: &[Self] = &[
        Self::Exclusion,
        Self::Tokens,
        Self::NoResurrection,
        Self::Fence,
        Self::LossTold,
        Self::Served,
        Self::NothingLeft,
        Self::Unfenced,
    ];

    /// What the table calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exclusion => "one holder at a time",
            Self::Tokens => "tokens increase",
            Self::NoResurrection => "lost stays lost",
            Self::Fence => "fenced data keeps every update",
            Self::LossTold => "a loss is told in time",
            Self::Served => "who waits is served",
            Self::NothingLeft => "nothing is left behind",
            Self::Unfenced => "data without a fence",
        }
    }
}

/// What is expected of a guarantee under a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It must hold in every run.
    Holds,
    /// It is not promised, and the run must find it broken, in repeated tries if need be: a fault that
    /// never shows what it is for proves nothing.
    Broken,
    /// It is not promised, and nothing is asked.
    Open,
}

/// A promise that a store withholds under a fault.
#[derive(Clone, Copy, Debug)]
pub struct Withheld {
    /// Under which fault.
    pub fault: Fault,
    /// Which promise.
    pub guarantee: Guarantee,
}

/// A kind of store.
#[derive(Clone)]
pub struct Subject {
    /// What the command line and the tables call it.
    pub name: String,
    /// The faults that apply.
    pub faults: Vec<Fault>,
    /// What it does not promise, and must be seen to break. The backend's own `Guarantees` must
    /// withhold a promise of exclusion or tokens that stands here, and no other.
    pub withheld: Vec<Withheld>,
    /// Starts it, with whatever the faults need.
    pub start: Start,
}

/// Starts a store.
pub type Start = Arc<dyn Fn() -> BoxFuture<Result<Stage, SetUpError>> + Send + Sync>;

/// Connects to a store by its URL, in any process.
pub type Connect = fn(String) -> BoxFuture<Result<Arc<dyn Backend>, Error>>;

/// A store that runs.
pub struct Stage {
    /// Its URL.
    pub url: String,
    /// The URL of the same store through proxies, and these, one for each of its servers.
    pub proxies: Option<(String, Vec<Proxy>)>,
    /// The server, for faults of the server; of several, so many that the store feels it.
    pub server: Option<Box<dyn Server>>,
    /// What else is kept until the run is over.
    pub kept: Box<dyn Any + Send + Sync>,
}

impl Stage {
    /// A store that nothing but its clients can be done to.
    #[must_use]
    pub fn of_clients(url: String, kept: impl Any + Send + Sync) -> Self {
        Self { url, proxies: None, server: None, kept: Box::new(kept) }
    }
}

impl Subject {
    /// A store that runs already, by its URL.
    #[must_use]
    pub fn at(url: &str) -> Self {
        let url = url.to_owned();
        Self {
            name: url.split(':').next().unwrap_or_default().to_owned(),
            faults: Fault::OF_CLIENTS.to_vec(),
            withheld: Vec::new(),
            start: Arc::new(move || {
                let stage = Stage::of_clients(url.clone(), ());
                Box::pin(async move { Ok(stage) })
            }),
        }
    }

    /// What is expected under `fault`.
    #[must_use]
    pub fn expects(&self, fault: Fault, guarantee: Guarantee) -> Expected {
        let here = |each: &Withheld| each.fault == fault && each.guarantee == guarantee;
        match (guarantee, fault) {
            _ if self.withheld.iter().any(here) => Expected::Broken,
            (Guarantee::Unfenced, Fault::None) => Expected::Holds,
            // A pause is what no lock can help against.
            (Guarantee::Unfenced, Fault::ClientPaused) => Expected::Broken,
            (Guarantee::Unfenced, _) => Expected::Open,
            _ => Expected::Holds,
        }
    }

    /// Where the backend promises what stands here as withheld: one of the two is wrong.
    pub(super) fn contradicts(&self, promised: &Guarantees) -> Option<String> {
        self.withheld.iter().find_map(|Withheld { fault, guarantee }| {
            let promise = match guarantee {
                Guarantee::Exclusion => &promised.exclusion,
                Guarantee::Tokens => &promised.tokens,
                _ => return None,
            };
            let what =
                format!("{guarantee:?} is to break under {fault}, and the backend promises it");
            promise.holds().then_some(what)
        })
    }
}

/// The lease of the workload: a second, or what the store can do.
pub(super) fn lease(promised: &Guarantees) -> Duration {
    promised.shortest_lease.max(Duration::from_secs(1)).min(promised.longest_lease)
}
