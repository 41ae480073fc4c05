//! What the steps share: connection, keys, settings, leases.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use etcd_client::{
    Compare, CompareOp, GetOptions, GetResponse, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};
use lock_core::{
    Env as _, Error, ErrorKind, FencingToken, Guarantees, LockName, OwnerId, SystemEnv,
};

use crate::{
    error::Failure,
    keepalive::Keepalives,
    layout::KeyLayout,
    ledger::Credit,
    place::Seen,
    promises::promises,
    queue::Places,
    rpc::{Lease, Rpc, whole_seconds},
    settings::{Record, Settings},
    watch::Watch,
};

/// How long an abandoned owner is remembered at least: longer than an attempt is on its way.
const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);
/// How many unused leases are kept for the next attempts.
const SPARES: usize = 4;

/// Locks in etcd.
#[derive(Debug)]
pub(crate) struct EtcdBackend {
    pub(crate) rpc: Rpc,
    pub(crate) layout: KeyLayout,
    pub(crate) keepalives: Keepalives,
    settings: Mutex<Settings>,
    promised: RwLock<Arc<Guarantees>>,
    /// Leases that no transaction has named but one that was refused.
    spares: Mutex<Vec<Lease>>,
    /// The leases of tries to wait whose outcome is not known.
    tries: Mutex<HashMap<OwnerId, Lease>>,
    pub(crate) places: Places,
    pub(crate) watch: Watch,
    /// The lease that the tombstones of these minutes live by.
    graveyard: Mutex<Option<Lease>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EtcdBackend {
    pub(crate) async fn open(
        rpc: Rpc,
        layout: KeyLayout,
        expected: Option<Duration>,
    ) -> Result<Self, Error> {
        let settings = load(&rpc, &layout, expected).await?;
        let longest = settings.record.longest_lease();
        if let Some(expected) = expected.filter(|expected| *expected != longest) {
            let show = humantime::format_duration;
            let message = format!(
                "this client expects the longest lease {}, and the store has {}; `init` changes it",
                show(expected),
                show(longest)
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        // etcd tells its smallest lease only by setting it. Nothing is tied to this one.
        let shortest = rpc.grant(Duration::from_secs(1)).await?.ttl;
        Ok(Self {
            keepalives: Keepalives::start(rpc.clone()),
            promised: RwLock::new(Arc::new(promises(shortest, longest))),
            settings: Mutex::new(settings),
            spares: Mutex::default(),
            tries: Mutex::default(),
            places: Places::default(),
            watch: Watch::default(),
            graveyard: Mutex::default(),
            rpc,
            layout,
        })
    }

    pub(crate) fn promised(&self) -> Arc<Guarantees> {
        Arc::clone(&self.promised.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn settings(&self) -> Settings {
        locked(&self.settings).clone()
    }

    /// Notes what a transaction at `now` has shown or written.
    pub(crate) fn note(&self, seen: Option<(Record, i64)>, now: i64) {
        let mut settings = locked(&self.settings);
        // The last to come, not the highest: after the restore of a snapshot revisions are lower, and a
        // token must not be taken for higher than it will be. One that comes late does no harm: the
        // next transaction compares.
        settings.now = now;
        let Some((record, revision)) = seen else { return };
        let longest = record.longest_lease();
        let changed = longest != settings.record.longest_lease();
        (settings.record, settings.revision) = (record, revision);
        drop(settings);
        if changed {
            let mut promised = self.promised.write().unwrap_or_else(PoisonError::into_inner);
            *promised = Arc::new(promises(promised.shortest_lease, longest));
        }
    }

    /// Reads the settings anew, and makes them anew if somebody has deleted them.
    pub(crate) async fn reload(&self) -> Result<(), Error> {
        let longest = self.settings().record.longest_lease();
        let fresh = load(&self.rpc, &self.layout, Some(longest)).await?;
        self.note(Some((fresh.record, fresh.revision)), fresh.now);
        Ok(())
    }

    /// A token further ahead than the longest lease would outlast a loss of data.
    pub(crate) fn check_token(&self, token: FencingToken) -> Result<(), Error> {
        let longest = self.settings().record.longest_lease_micros;
        let limit = SystemEnv.wall_micros() + longest;
        if token.get() > limit {
            let message = format!(
                "token {token} leads the clock by more than the longest lease; allowed is up to {limit}"
            );
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(())
    }

    /// A lease that nothing is tied to.
    pub(crate) async fn lease(&self, span: Duration) -> Result<Lease, Error> {
        let shortest = self.promised().shortest_lease;
        let ttl = Duration::from_secs(whole_seconds(span)).max(shortest);
        loop {
            let spare = {
                let mut spares = locked(&self.spares);
                let at = spares.iter().rposition(|spare| spare.ttl == ttl);
                at.map(|at| spares.swap_remove(at))
            };
            let Some(spare) = spare else { return self.rpc.grant(ttl).await };
            if SystemEnv.now().since(spare.from) < ttl / 6 {
                return Ok(spare);
            }
            if let Ok(Credit::Alive { from, seconds }) = self.keepalives.ask(spare.id).await {
                return Ok(Lease { id: spare.id, ttl: Duration::from_secs(seconds), from });
            }
        }
    }

    /// Keeps a lease that was not used for the next attempt.
    pub(crate) fn spare(&self, lease: Lease) {
        let mut spares = locked(&self.spares);
        if spares.len() >= SPARES {
            // The oldest goes, and ends by itself.
            spares.remove(0);
        }
        spares.push(lease);
    }

    pub(crate) fn take_spares(&self) -> Vec<Lease> {
        std::mem::take(&mut *locked(&self.spares))
    }

    pub(crate) fn tried(&self, owner: OwnerId) -> Option<Lease> {
        locked(&self.tries).get(&owner).copied()
    }

    pub(crate) fn note_try(&self, owner: OwnerId, lease: Lease) {
        locked(&self.tries).insert(owner, lease);
    }

    pub(crate) fn forget_try(&self, owner: OwnerId) {
        locked(&self.tries).remove(&owner);
    }

    /// The lease for a tombstone, which lives for [`TOMBSTONE_LIFE`] more at least.
    pub(crate) async fn grave(&self) -> Result<Lease, Error> {
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

    /// The cluster's own number, and where in it the keys lie.
    pub(crate) async fn name_of_store(&self) -> Result<String, Error> {
        let answer = self.rpc.txn(Txn::new().and_then([self.get_settings()])).await?;
        let cluster = answer.header().map_or(0, etcd_client::ResponseHeader::cluster_id);
        Ok(format!("etcd:{cluster:016x}:{}", self.layout.prefix()))
    }

    /// The place that stands first, and how many there are.
    pub(crate) async fn look(&self, name: &LockName) -> Result<(Option<Seen>, i64), Error> {
        let answer = self.rpc.txn(Txn::new().and_then([self.get_first(name)])).await?;
        let first = gets(&answer).into_iter().next();
        let seen = first.as_ref().and_then(only);
        Ok((seen, first.map_or(0, |first| first.count())))
    }
}

/// Reads the settings, and makes them if there are none.
async fn load(rpc: &Rpc, layout: &KeyLayout, longest: Option<Duration>) -> Result<Settings, Error> {
    let mut first = Record::new(longest);
    first.offset = SystemEnv.wall_micros().cast_signed();
    let key = layout.settings();
    let txn = Txn::new()
        .when([Compare::version(key.clone(), CompareOp::Equal, 0)])
        .and_then([first.put(layout)])
        .or_else([TxnOp::get(key, None)]);
    let answer = rpc.txn(txn).await?;
    let now = revision(&answer);
    if answer.succeeded() {
        return Ok(Settings { record: first, revision: now, now });
    }
    match gets(&answer).first().map(read_settings).transpose()?.flatten() {
        Some((record, revision)) => Ok(Settings { record, revision, now }),
        None => Err(Error::new(ErrorKind::Unavailable, "etcd answered without the settings")),
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
    got.kvs().first().and_then(Seen::read)
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
