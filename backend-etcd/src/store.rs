//! What the steps share: connection, keys, settings, leases.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard, Weak},
    time::Duration,
};

use etcd_client::{
    Compare, CompareOp, GetOptions, GetResponse, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};
use lock_core::{
    Env as _, Error, ErrorKind, FencingToken, Guarantees, Instant, Link, LockName, OwnerId,
    StoreSettings, SystemEnv, check_lease, check_token,
};

use crate::{
    error::Failure,
    history::History,
    keepalive::Keepalives,
    layout::KeyLayout,
    ledger::Credit,
    place::Seen,
    promises::{is_promised, promises},
    queue::Places,
    rpc::{Lease, Rpc, whole_seconds},
    seats::{Seat, Seats},
    settings::{Record, Settings},
    spares::Spares,
    watch::Watch,
};

/// How long an abandoned owner is remembered at least: longer than an attempt is on its way.
const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);

/// A try to wait whose outcome is not known.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    pub(crate) lease: Lease,
    pub(crate) seat: Arc<Seat>,
}

/// Locks in etcd.
#[derive(Debug)]
pub(crate) struct EtcdBackend {
    pub(crate) rpc: Rpc,
    pub(crate) layout: KeyLayout,
    pub(crate) keepalives: Keepalives,
    /// `None` until the first look at the store.
    settings: Mutex<Option<Settings>>,
    promised: RwLock<Arc<Guarantees>>,
    pub(crate) history: History,
    /// Held by who looks at the store's history.
    pub(crate) looking: tokio::sync::Mutex<()>,
    /// The longest lease that this client was told.
    pub(crate) expected: Option<Duration>,
    pub(crate) spares: Spares,
    tries: Mutex<HashMap<OwnerId, Tried>>,
    pub(crate) seats: Seats,
    pub(crate) places: Places,
    pub(crate) watch: Watch,
    /// The lease that the tombstones of these minutes live by.
    graveyard: Mutex<Option<Lease>>,
    /// For what outlives a call of its own.
    me: Weak<Self>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn locked_write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl EtcdBackend {
    pub(crate) async fn open(
        rpc: Rpc,
        layout: KeyLayout,
        link: Link,
        expected: Option<Duration>,
        spares: usize,
    ) -> Result<Arc<Self>, Error> {
        let longest = expected.unwrap_or(StoreSettings::DEFAULT_LONGEST_LEASE);
        let backend = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            keepalives: Keepalives::start(rpc.clone()),
            // Both are known only after a look at the store, below.
            promised: RwLock::new(Arc::new(promises(
                Duration::ZERO,
                &Record::new(Some(longest)),
                link,
            ))),
            settings: Mutex::default(),
            history: History::default(),
            looking: tokio::sync::Mutex::default(),
            expected,
            spares: Spares::new(rpc.clone(), spares),
            tries: Mutex::default(),
            seats: Seats::new(),
            places: Places::default(),
            watch: Watch::default(),
            graveyard: Mutex::default(),
            rpc,
            layout,
        });
        backend.pass().await?;
        let record = backend.settings().record;
        let longest = record.longest_lease();
        if let Some(expected) = expected.filter(|expected| *expected != longest) {
            let show = humantime::format_duration;
            let message = format!(
                "this client expects the longest lease {}, and the store has {}; `init` changes it",
                show(expected),
                show(longest)
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        // etcd tells its smallest lease only by setting it.
        let probe = backend.rpc.grant(Duration::from_secs(1)).await?;
        *locked_write(&backend.promised) = Arc::new(promises(probe.ttl, &record, link));
        backend.spares.put(probe);
        Ok(backend)
    }

    /// As long as anybody uses it.
    pub(crate) fn shared(&self) -> Result<Arc<Self>, Error> {
        let closed = || Error::new(ErrorKind::Unavailable, "the client is closed");
        self.me.upgrade().ok_or_else(closed)
    }

    pub(crate) fn promised(&self) -> Arc<Guarantees> {
        Arc::clone(&self.promised.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn known_settings(&self) -> Option<Settings> {
        locked(&self.settings).clone()
    }

    /// As they were last read; of a new store before the first look.
    pub(crate) fn settings(&self) -> Settings {
        self.known_settings().unwrap_or_else(|| Settings {
            record: Record::new(self.expected),
            revision: 0,
            now: 0,
            seen: Instant::default(),
        })
    }

    /// Notes what a transaction at `now` has shown or written.
    pub(crate) fn note(&self, seen: Option<(Record, i64)>, now: i64) {
        let mut settings = locked(&self.settings);
        // The last to come, not the highest: after the restore of a snapshot revisions are lower, and a
        // token must not be taken for higher than it will be. One that comes late does no harm: the
        // next transaction compares.
        let (record, revision) = match (seen, settings.as_mut()) {
            (Some(seen), _) => seen,
            (None, Some(settings)) => {
                (settings.now, settings.seen) = (now, SystemEnv.now());
                return;
            }
            (None, None) => return,
        };
        *settings = Some(Settings { record: record.clone(), revision, now, seen: SystemEnv.now() });
        drop(settings);
        let mut promised = locked_write(&self.promised);
        if !is_promised(&promised, &record) {
            *promised = Arc::new(promises(promised.shortest_lease, &record, promised.link));
        }
    }

    pub(crate) fn note_found(&self, found: &GetResponse, now: i64) -> Result<(), Error> {
        match read_settings(found)? {
            Some(seen) => self.note(Some(seen), now),
            None => self.lost_settings(),
        }
        Ok(())
    }

    /// The settings were not there: whoever grants next is to find out why.
    pub(crate) fn lost_settings(&self) {
        self.history.doubt();
    }

    /// Refuses a lease that is longer than the settings allow. Others may have changed them since they were
    /// read, so that they are read once more before.
    pub(crate) async fn allow(
        &self,
        lease: Duration,
        longest: fn(&Record) -> Duration,
    ) -> Result<(), Error> {
        if lease > longest(&self.settings().record) {
            self.history.doubt();
            self.pass().await?;
        }
        check_lease(lease, longest(&self.settings().record))
    }

    /// A token further ahead than the longest lease would outlast a loss of data.
    pub(crate) fn check_token(&self, token: FencingToken) -> Result<(), Error> {
        check_token(token, SystemEnv.wall_micros(), self.settings().record.longest_lease())
    }

    /// A lease that nothing is tied to.
    pub(crate) async fn lease(&self, span: Duration) -> Result<Lease, Error> {
        let shortest = self.promised().shortest_lease;
        let ttl = Duration::from_secs(whole_seconds(span)).max(shortest);
        while let Some(spare) = self.spares.take(ttl) {
            if SystemEnv.now().since(spare.from) < ttl / 6 {
                return Ok(spare);
            }
            match Box::pin(self.alive(spare.id)).await {
                Ok(Some(lease)) => return Ok(lease),
                Ok(None) => {}
                // The others would take as long.
                Err(_) => break,
            }
        }
        Ok(Box::pin(self.rpc.grant(ttl)).await?)
    }

    /// A lease that nothing is tied to, and that lives for this long from now on.
    pub(crate) async fn last_lease(&self, span: Duration) -> Result<Lease, Error> {
        let until = SystemEnv.now() + span;
        let lease = self.lease(span).await?;
        if lease.from + lease.ttl >= until {
            return Ok(lease);
        }
        // A spare, of which a part is over.
        match self.alive(lease.id).await {
            Ok(Some(lease)) => Ok(lease),
            _ => Ok(self.rpc.grant(lease.ttl).await?),
        }
    }

    /// Keeps a lease alive; `None` if it is gone.
    pub(crate) async fn alive(&self, id: i64) -> Result<Option<Lease>, Error> {
        Ok(match self.keepalives.ask(id).await? {
            Credit::Alive { from, seconds } => {
                Some(Lease { id, ttl: Duration::from_secs(seconds), from })
            }
            _ => None,
        })
    }

    /// Keeps a lease that was not used for the next attempt.
    pub(crate) fn spare(&self, lease: Lease) {
        self.spares.put(lease);
    }

    pub(crate) fn tried(&self, owner: OwnerId) -> Option<Tried> {
        locked(&self.tries).get(&owner).cloned()
    }

    pub(crate) fn note_try(&self, owner: OwnerId, tried: Tried) {
        locked(&self.tries).insert(owner, tried);
    }

    pub(crate) fn forget_try(&self, owner: OwnerId) {
        locked(&self.tries).remove(&owner);
    }

    /// The lease for a tombstone, which lives for [`TOMBSTONE_LIFE`] more at least, and as long as a lease
    /// that a late attempt may have.
    pub(crate) async fn grave(&self, span: Duration) -> Result<Lease, Error> {
        if span > TOMBSTONE_LIFE {
            return Ok(self.rpc.grant(span).await?);
        }
        let open = *locked(&self.graveyard);
        let now = SystemEnv.now();
        if let Some(lease) = open.filter(|lease| now.since(lease.from) < TOMBSTONE_LIFE) {
            return Ok(lease);
        }
        let lease = self.rpc.grant(TOMBSTONE_LIFE * 2).await?;
        *locked(&self.graveyard) = Some(lease);
        Ok(lease)
    }

    pub(crate) fn forget_grave(&self) {
        *locked(&self.graveyard) = None;
    }

    /// The condition that an owner was not abandoned.
    pub(crate) fn not_abandoned(&self, owner: OwnerId) -> Compare {
        Compare::version(self.layout.tombstone(owner), CompareOp::Equal, 0)
    }

    /// Reads the place that stands first.
    pub(crate) fn get_first(&self, name: &LockName) -> TxnOp {
        let oldest = GetOptions::new()
            .with_prefix()
            .with_sort(SortTarget::Create, SortOrder::Ascend)
            .with_limit(1);
        TxnOp::get(self.layout.places(name), Some(oldest))
    }

    pub(crate) fn get_settings(&self) -> TxnOp {
        TxnOp::get(self.layout.settings(), None)
    }

    /// As the settings have it now: they may have been lost, and another client may have written others.
    pub(crate) async fn name_of_store(&self) -> Result<String, Error> {
        self.history.doubt();
        self.pass().await?;
        Ok(self.settings().record.name_of_store(&self.layout))
    }

    /// The place that stands first, and how many there are.
    pub(crate) async fn look(&self, name: &LockName) -> Result<(Option<Seen>, i64), Error> {
        let answer = self.rpc.txn(Txn::new().and_then([self.get_first(name)])).await?;
        let first = gets(&answer).into_iter().next();
        let seen = first.as_ref().and_then(only);
        Ok((seen, first.map_or(0, |first| first.count())))
    }
}

/// The settings among what a transaction has read, with their revision.
pub(crate) fn read_settings(got: &GetResponse) -> Result<Option<(Record, i64)>, Error> {
    let pair = got.kvs().first();
    pair.map(|pair| Ok((Record::read(pair)?, pair.mod_revision()))).transpose()
}

/// What a transaction has read, in order.
pub(crate) fn gets(answer: &TxnResponse) -> Vec<GetResponse> {
    let responses = answer.op_responses().into_iter();
    responses
        .filter_map(|response| match response {
            TxnOpResponse::Get(got) => Some(got),
            _ => None,
        })
        .collect()
}

/// The one place that was read.
pub(crate) fn only(got: &GetResponse) -> Option<Seen> {
    got.kvs().first().map(Seen::read)
}

/// The store's revision after a transaction.
pub(crate) fn revision(answer: &TxnResponse) -> i64 {
    answer.header().map_or(0, etcd_client::ResponseHeader::revision)
}

/// Puts a key that lives by a lease.
pub(crate) fn put(key: &str, value: Vec<u8>, lease: i64) -> TxnOp {
    TxnOp::put(key, value, Some(PutOptions::new().with_lease(lease)))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
