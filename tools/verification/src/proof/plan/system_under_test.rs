//! A store to try, its faults, and what is expected of it, as data.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Backend, BoxFuture, Error, FencingToken, Guarantees, LockName, Promise};
use serde::{Deserialize, Serialize};

use crate::proof::plan::fault::Fault;
use conformance_tests::SetUpError;
use servers::{Data, Proxy, Server};

/// A guarantee that a run checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Guarantee {
    /// S1: the times in which two guards of a name are valid never overlap.
    Exclusion,
    /// S2: tokens increase over the grants of a name.
    Tokens,
    /// S5: a lost guard stays lost.
    NoResurrection,
    /// A register behind a fence lost no update and took no stale write.
    Fence,
    /// The same of a register behind the store's own fence, where it has one.
    OwnFence,
    /// S7: no write of a former holder replaced a record.
    Record,
    /// A detached lock got one guard at most, with the same token, and its former guard stayed
    /// invalid.
    HandOver,
    /// L5: a guard reports its loss when its validity ends.
    LossReported,
    /// L1, L2: the lock was free again in time, and every waiter was served.
    Served,
    /// L3: queue entries were served first come, first served, if the store promises fairness.
    Fair,
    /// S6, L6: after all clients have ended there is no lock, no permanent record, and no task of a
    /// closed client.
    NothingLeft,
    /// A register that asks for no token lost no update. No lock can promise it: see
    /// docs/what-a-lock-cannot-do.md.
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
        Self::Record,
        Self::HandOver,
        Self::LossReported,
        Self::Served,
        Self::Fair,
        Self::NothingLeft,
        Self::Unfenced,
    ];

    /// The name in the tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exclusion => "one holder at a time",
            Self::Tokens => "tokens increase",
            Self::NoResurrection => "lost stays lost",
            Self::Fence => "fenced data keeps every update",
            Self::OwnFence => "so by the store's own fence",
            Self::Record => "no stale write of a record",
            Self::HandOver => "a lock is handed over once",
            Self::LossReported => "a loss is reported in time",
            Self::Served => "waiters are served",
            Self::Fair => "served in order",
            Self::NothingLeft => "nothing is left behind",
            Self::Unfenced => "data without a fence",
        }
    }
}

/// What must happen to a guarantee under a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It must hold in every run.
    Holds,
    /// It is withheld, and the run must see it broken. A fault that breaks nothing proves nothing.
    Broken,
    /// It is withheld, and may hold or not.
    Open,
}

/// A promise that a store withholds under a fault, and that the run must see broken.
#[derive(Clone, Copy, Debug)]
pub struct Withheld {
    /// The fault.
    pub fault: Fault,
    /// The promise.
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
pub enum Untried {
    /// The fault cannot happen to this store, for this reason.
    NotApplicable(&'static str),
    /// The results of another store apply.
    As(&'static str),
    /// The tests do not make it happen to this store, for this reason.
    NotTried(&'static str),
}

/// A kind of store.
#[derive(Clone)]
pub struct SystemUnderTest {
    /// The name on the command line and in the tables.
    pub name: String,
    /// The faults to try, and whether the quick profile tries them, too.
    pub faults: Vec<(Fault, InQuick)>,
    /// The other faults, with the reasons.
    pub untried: Vec<(Fault, Untried)>,
    /// The promises that must be seen broken.
    pub withheld: Vec<Withheld>,
    /// Starts the store, with what the fault needs.
    pub start: Start,
}

/// Whether the quick profile tries a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InQuick {
    /// It does.
    Yes,
    /// Only the soak does, since the fault takes long.
    No,
}

/// Starts a store for a fault.
pub type Start = Arc<dyn Fn(Fault) -> BoxFuture<Result<StartedStore, SetUpError>> + Send + Sync>;

/// Connects to a store by its URL, in any process.
pub type Connect = fn(String) -> BoxFuture<Result<Arc<dyn Backend>, Error>>;

/// A store that runs.
pub struct StartedStore {
    /// Its URL.
    pub url: String,
    /// The URL for the heir that comes first, if it differs.
    pub heir: Option<String>,
    /// The URL of the same store through proxies, and these, one for each of its servers.
    pub proxies: Option<(String, Vec<Proxy>)>,
    /// Makes faults happen to its servers.
    pub injector: Option<Box<dyn FaultInjector>>,
    /// Its own fence.
    pub fence: Option<Arc<dyn OwnFence>>,
    /// Counts its permanent records.
    pub counter: Option<Arc<dyn RecordCounter>>,
    /// Servers and folders, kept until the run is over.
    pub kept: Box<dyn Any + Send + Sync>,
}

impl StartedStore {
    /// A store whose only faults are those of its clients.
    #[must_use]
    pub fn of_clients(url: String, kept: impl Any + Send + Sync) -> Self {
        Self {
            url,
            heir: None,
            proxies: None,
            injector: None,
            fence: None,
            counter: None,
            kept: Box::new(kept),
        }
    }
}

/// Makes faults happen to the servers of a store. Each step returns how it is known to have
/// happened, or an error if it did not happen.
#[async_trait]
pub trait FaultInjector: Send + Sync {
    /// Makes the fault happen, while somebody holds `name`.
    ///
    /// # Errors
    /// In words, if it did not happen.
    async fn inject(&mut self, fault: Fault, name: &LockName) -> Result<String, SetUpError>;

    /// Ends a fault that lasts.
    ///
    /// # Errors
    /// In words, if it did not happen after all, or does not end.
    async fn end_fault(&mut self, fault: Fault) -> Result<String, SetUpError>;
}

/// The faults that are the same for one server of any kind.
#[async_trait]
impl<S: Server> FaultInjector for S {
    async fn inject(&mut self, fault: Fault, _: &LockName) -> Result<String, SetUpError> {
        match fault {
            Fault::ServerPaused => {
                // `pause` returns when all processes of the server are stopped.
                self.pause()?;
                Ok("every process of the server was stopped".to_owned())
            }
            Fault::ServerRestarted | Fault::DataLost => {
                let data = if fault == Fault::DataLost { Data::Lose } else { Data::Keep };
                let before = self.process().pid()?;
                self.restart(data).await?;
                let after = self.process().pid()?;
                if before == after {
                    return Err(format!("process {before} was not replaced by a new one").into());
                }
                Ok("the server runs as a new process".to_owned())
            }
            other => Err(format!("{other} cannot be made to happen to this server").into()),
        }
    }

    async fn end_fault(&mut self, _: Fault) -> Result<String, SetUpError> {
        self.resume()?;
        Ok("it was resumed".to_owned())
    }
}

/// A store's own fence, tried in that store.
#[async_trait]
pub trait OwnFence: Send + Sync {
    /// Writes user data under the token; returns whether the fence admitted the write.
    ///
    /// # Errors
    /// As the store's.
    async fn admit(&self, resource: &str, token: FencingToken) -> Result<bool, SetUpError>;
}

/// Counts the permanent records of a store.
#[async_trait]
pub trait RecordCounter: Send + Sync {
    /// Counts the records that do not expire within about a minute: keys without an expiry, rows of
    /// names.
    ///
    /// # Errors
    /// As the store's.
    async fn count(&self) -> Result<RecordCount, SetUpError>;
    /// How many more records a run over so many names may leave.
    fn allowed(&self, names: usize) -> RecordCount;
}

/// A number of records, and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCount {
    /// Keys or rows.
    pub records: u64,
    /// Their size, as the store reports it if it does.
    pub bytes: u64,
}

impl RecordCount {
    pub(crate) fn is_more_than(self, before: Self, allowed: Self) -> bool {
        self.records > before.records + allowed.records || self.bytes > before.bytes + allowed.bytes
    }
}

impl fmt::Display for RecordCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records of {} bytes", self.records, self.bytes)
    }
}

impl SystemUnderTest {
    /// A store of the user's, by its URL.
    #[must_use]
    pub fn at(url: &str) -> Self {
        let url = url.to_owned();
        Self {
            name: url.split(':').next().unwrap_or_default().to_owned(),
            faults: Fault::OF_CLIENTS.iter().map(|fault| (*fault, InQuick::Yes)).collect(),
            untried: Vec::new(),
            withheld: Vec::new(),
            start: Arc::new(move |_| {
                let stage = StartedStore::of_clients(url.clone(), ());
                Box::pin(async move { Ok(stage) })
            }),
        }
    }

    /// What must happen to `guarantee` under `fault`.
    #[must_use]
    pub fn expects(&self, fault: Fault, guarantee: Guarantee) -> Expected {
        let here = |each: &Withheld| each.fault == fault && each.guarantee == guarantee;
        match (guarantee, fault) {
            _ if self.withheld.iter().any(here) => Expected::Broken,
            // The loss of a hand-over brings the former owner back.
            (Guarantee::HandOver, _)
                if self.expects(fault, Guarantee::Exclusion) == Expected::Broken =>
            {
                Expected::Open
            }
            (Guarantee::Unfenced, Fault::None) => Expected::Holds,
            // No lock can protect data without a fence from a paused holder.
            (Guarantee::Unfenced, Fault::ClientPaused) => Expected::Broken,
            (Guarantee::Unfenced, _) => Expected::Open,
            _ => Expected::Holds,
        }
    }

    /// Whether the victim hears nothing of its store during a fault, so that chance does not decide
    /// whether it learns of its loss before another client has the lock.
    pub(crate) fn silences_the_victim(&self, fault: Fault) -> bool {
        let breaks = self.expects(fault, Guarantee::Exclusion) == Expected::Broken;
        breaks && !fault.spares_the_store()
    }

    /// Says where the backend promises what is withheld here. One of the two must be wrong.
    pub(crate) fn contradicts(&self, promised: &Guarantees) -> Option<String> {
        self.withheld.iter().find_map(|Withheld { fault, guarantee, reason }| {
            let promise = match guarantee {
                Guarantee::Exclusion => &promised.exclusion,
                Guarantee::Tokens => &promised.tokens,
                _ => return None,
            };
            let what = format!("{guarantee:?} must break under {fault}");
            match (promise, reason) {
                (_, Reason::Flaw) | (Promise::Withheld { .. }, Reason::Unpromised) => None,
                (Promise::Holds { .. }, Reason::Unpromised) => {
                    Some(format!("{what}, but the backend promises it"))
                }
                (Promise::Withheld { .. }, Reason::Assumption(id)) => Some(format!(
                    "{what} against the assumption {id}, but the backend does not promise it at all"
                )),
                (Promise::Holds { assuming }, Reason::Assumption(id)) => {
                    let named = assuming.iter().any(|assumption| assumption.id == *id);
                    (!named).then(|| {
                        format!("{what}, but the backend does not name the assumption {id}")
                    })
                }
            }
        })
    }

    /// Why the fault is not tried.
    pub(crate) fn why_not(&self, fault: Fault) -> Option<Untried> {
        self.untried.iter().find(|(each, _)| *each == fault).map(|(_, why)| *why)
    }
}

/// The lease of the clients: one second, within the range of the store.
pub(crate) fn lease(promised: &Guarantees) -> Duration {
    promised.shortest_lease.max(Duration::from_secs(1)).min(promised.longest_lease)
}
