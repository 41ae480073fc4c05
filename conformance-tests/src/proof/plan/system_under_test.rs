//! What is tried, and what is expected of it: data.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Backend, BoxFuture, Error, FencingToken, Guarantees, LockName, Promise};
use serde::{Deserialize, Serialize};

use crate::proof::plan::fault::Fault;
use crate::{
    SetUpError,
    kit::{Data, Proxy, Server},
};

/// What a run is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
    /// The same of a register behind the store's own fence, where it has one.
    OwnFence,
    /// L5: a loss is told when the validity ends.
    LossTold,
    /// L1, L2: the lock was free again in time, and everybody who waited was served.
    Served,
    /// L3: places were served first come, first served, where the store calls itself fair.
    Fair,
    /// S6, L6: no lock is left when all have ended, no record that does not go by itself, and no task in
    /// a client that has closed.
    NothingLeft,
    /// A register that asks for no token lost no update. No lock can promise it: see docs/what-a-lock-cannot-do.md.
    Unfenced,
}

impl Guarantee {
    /// All, in the order of the table.
    pub const ALL: &[Self] = &[
        Self::Exclusion,
        Self::Tokens,
        Self::NoResurrection,
        Self::Fence,
        Self::OwnFence,
        Self::LossTold,
        Self::Served,
        Self::Fair,
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
            Self::OwnFence => "so by the store's own fence",
            Self::LossTold => "a loss is told in time",
            Self::Served => "waiters are served",
            Self::Fair => "served in order",
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

/// A promise that does not hold under a fault, and must be seen to break.
#[derive(Clone, Copy, Debug)]
pub struct Withheld {
    /// Under which fault.
    pub fault: Fault,
    /// Which promise.
    pub guarantee: Guarantee,
    /// Why it breaks.
    pub reason: Reason,
}

/// Why a promise breaks under a fault.
#[derive(Clone, Copy, Debug)]
pub enum Reason {
    /// The backend makes no such promise.
    Unpromised,
    /// The fault breaks the assumption with this id in the backend's `Guarantees`.
    Assumption(&'static str),
    /// The store is broken on purpose.
    Flaw,
}

/// Why a fault is not tried on a store.
#[derive(Clone, Copy, Debug)]
pub enum Absent {
    /// There is no such fault there, for this reason.
    NotApplicable(&'static str),
    /// Its results are another row's.
    As(&'static str),
    /// Nobody has made it happen here yet, for this reason.
    NotTried(&'static str),
}

/// A kind of store.
#[derive(Clone)]
pub struct SystemUnderTest {
    /// What the command line and the tables call it.
    pub name: String,
    /// The faults that are tried, and whether the quick profile has them, too.
    pub faults: Vec<(Fault, InQuick)>,
    /// The others, with the reasons.
    pub absent: Vec<(Fault, Absent)>,
    /// What does not hold, and must be seen to break.
    pub withheld: Vec<Withheld>,
    /// Starts it, with whatever the fault needs.
    pub start: Start,
}

/// Whether the quick profile tries a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InQuick {
    /// It does.
    Yes,
    /// Only the soak does, for the time that it takes.
    No,
}

/// Starts a store for a fault.
pub type Start = Arc<dyn Fn(Fault) -> BoxFuture<Result<Stage, SetUpError>> + Send + Sync>;

/// Connects to a store by its URL, in any process.
pub type Connect = fn(String) -> BoxFuture<Result<Arc<dyn Backend>, Error>>;

/// A store that runs.
pub struct Stage {
    /// Its URL.
    pub url: String,
    /// The URL of the same store through proxies, and these, one for each of its servers.
    pub proxies: Option<(String, Vec<Proxy>)>,
    /// What can be done to its servers.
    pub plant: Option<Box<dyn Plant>>,
    /// Its own fence.
    pub fence: Option<Arc<dyn OwnFence>>,
    /// What it has stored.
    pub census: Option<Arc<dyn Census>>,
    /// What else is kept until the run is over.
    pub kept: Box<dyn Any + Send + Sync>,
}

impl Stage {
    /// A store that nothing but its clients can be done to.
    #[must_use]
    pub fn of_clients(url: String, kept: impl Any + Send + Sync) -> Self {
        Self { url, proxies: None, plant: None, fence: None, census: None, kept: Box::new(kept) }
    }
}

/// The servers of a store, for faults. Each step tells how it is known to have happened, and is an error
/// if it has not.
#[async_trait]
pub trait Plant: Send + Sync {
    /// Makes the fault happen, while somebody holds `name`.
    ///
    /// # Errors
    /// In words, if it did not happen.
    async fn plant(&mut self, fault: Fault, name: &LockName) -> Result<String, SetUpError>;

    /// Ends a fault that lasts.
    ///
    /// # Errors
    /// In words, if it did not happen after all, or does not end.
    async fn heal(&mut self, fault: Fault) -> Result<String, SetUpError>;
}

/// One server, for the faults that are the same whatever it speaks.
#[async_trait]
impl<S: Server> Plant for S {
    async fn plant(&mut self, fault: Fault, _: &LockName) -> Result<String, SetUpError> {
        match fault {
            Fault::ServerPaused => {
                // It returns when none of the server's processes runs.
                self.pause()?;
                Ok("every process of it stood still".to_owned())
            }
            Fault::ServerRestarted | Fault::DataLost => {
                let data = if fault == Fault::DataLost { Data::Lose } else { Data::Keep };
                let before = self.process().pid()?;
                self.restart(data).await?;
                let after = self.process().pid()?;
                if before == after {
                    return Err(format!("process {before} was to be replaced").into());
                }
                Ok("another process serves".to_owned())
            }
            other => Err(format!("{other} cannot be made to happen to this server").into()),
        }
    }

    async fn heal(&mut self, _: Fault) -> Result<String, SetUpError> {
        self.resume()?;
        Ok("it goes on".to_owned())
    }
}

/// A store's own fence, tried in that store.
#[async_trait]
pub trait OwnFence: Send + Sync {
    /// Offers the token, with a write of the user's: whether it was admitted, and so written.
    ///
    /// # Errors
    /// As the store's.
    async fn admit(&self, resource: &str, token: FencingToken) -> Result<bool, SetUpError>;
}

/// What a store has in it.
#[async_trait]
pub trait Census: Send + Sync {
    /// What does not go by itself within about a minute: keys without an expiry, rows of names.
    ///
    /// # Errors
    /// As the store's.
    async fn lasting(&self) -> Result<Lasting, SetUpError>;
    /// So much more may be left after a run over so many names.
    fn allowed(&self, names: usize) -> Lasting;
}

/// How much of it there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lasting {
    /// Keys or rows.
    pub records: u64,
    /// What they take, by the store's own account where it has one.
    pub bytes: u64,
}

impl Lasting {
    pub(crate) fn is_more_than(self, before: Self, allowed: Self) -> bool {
        self.records > before.records + allowed.records || self.bytes > before.bytes + allowed.bytes
    }
}

impl fmt::Display for Lasting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records of {} bytes", self.records, self.bytes)
    }
}

impl SystemUnderTest {
    /// A store that runs already, by its URL.
    #[must_use]
    pub fn at(url: &str) -> Self {
        let url = url.to_owned();
        Self {
            name: url.split(':').next().unwrap_or_default().to_owned(),
            faults: Fault::OF_CLIENTS.iter().map(|fault| (*fault, InQuick::Yes)).collect(),
            absent: Vec::new(),
            withheld: Vec::new(),
            start: Arc::new(move |_| {
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
    pub(crate) fn contradicts(&self, promised: &Guarantees) -> Option<String> {
        self.withheld.iter().find_map(|Withheld { fault, guarantee, reason }| {
            let promise = match guarantee {
                Guarantee::Exclusion => &promised.exclusion,
                Guarantee::Tokens => &promised.tokens,
                _ => return None,
            };
            let what = format!("{guarantee:?} is to break under {fault}");
            match (promise, reason) {
                (_, Reason::Flaw) | (Promise::Withheld { .. }, Reason::Unpromised) => None,
                (Promise::Holds { .. }, Reason::Unpromised) => {
                    Some(format!("{what}, and is promised"))
                }
                (Promise::Withheld { .. }, Reason::Assumption(id)) => {
                    Some(format!("{what} against the assumption {id}, and is not promised at all"))
                }
                (Promise::Holds { assuming }, Reason::Assumption(id)) => {
                    let named = assuming.iter().any(|assumption| assumption.id == *id);
                    (!named).then(|| format!("{what}, and the assumption {id} is not named"))
                }
            }
        })
    }

    /// What the table says where nothing was tried.
    pub(crate) fn why_not(&self, fault: Fault) -> Option<Absent> {
        self.absent.iter().find(|(each, _)| *each == fault).map(|(_, why)| *why)
    }
}

/// The lease of the workload: a second, or what the store can do.
pub(crate) fn lease(promised: &Guarantees) -> Duration {
    promised.shortest_lease.max(Duration::from_secs(1)).min(promised.longest_lease)
}
