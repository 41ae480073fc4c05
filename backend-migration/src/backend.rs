//! The migration: it opens the record and hands each call to what carries it out, in one store or in both.

#![deny(clippy::missing_trait_methods)]

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Cursor, Enqueued, Env, Error, ErrorKind, FencingToken, Grant, Guarantees,
    Init, Instant, LockName, LockState, OwnerLabel, Page, ReleaseOptions, ReleaseOutcome, Released,
    Renewal, Request, StoreSettings, SystemEnv,
};

use crate::{
    both::Both,
    guarantees::GuaranteeCache,
    phase::Phase,
    record::{Record, is_record},
    single::Single,
};

/// A backend over an old and a new store.
///
/// In [`Phase::Both`] a lock is held in both stores, under the larger of their two tokens, which both
/// have before the client sees it. A waiter is woken as the stores wake theirs, and not served in order.
/// In the other phases it is the one store, with tokens above those of the other.
///
/// Each process keeps a record of its phase in both stores, which [`Fleet::survey`](crate::Fleet::survey) reads. In the
/// phases `Old` and `New` a process whose record is lost in the store that it uses neither acquires
/// nor renews until it is written anew.
#[derive(Debug)]
pub struct Migration {
    phase: Phase,
    /// The old and the new store.
    stores: [Arc<dyn Backend>; 2],
    record: Arc<Record>,
    backend: Active,
}

#[derive(Debug)]
enum Active {
    Single(Single),
    Both(Both),
}

impl Migration {
    /// Moves from `old` to `new`; this process is in `phase`. Its record names it `host:pid`.
    ///
    /// # Errors
    /// `Config` if the two are one store; while a process two phases away is alive, or was less than
    /// a longest lease ago, naming it; in an end phase if the store's clock is behind the other's by
    /// its longest lease; in [`Phase::Both`] if one of the stores cannot raise a token. `Unsupported`
    /// if one of them has no identity. Otherwise as the stores' own: both are asked in each phase.
    ///
    /// *Cancel safety*: a record that was written is given back in the background.
    pub async fn new(
        old: Arc<dyn Backend>,
        new: Arc<dyn Backend>,
        phase: Phase,
    ) -> Result<Self, Error> {
        let label = OwnerLabel::of_this_process();
        Self::with_env(old, new, phase, label, Arc::new(SystemEnv)).await
    }

    /// The same with a label of its own, in the real world or a simulated one.
    ///
    /// # Errors
    /// As [`Migration::new`].
    pub async fn with_env(
        old: Arc<dyn Backend>,
        new: Arc<dyn Backend>,
        phase: Phase,
        label: OwnerLabel,
        env: Arc<dyn Env>,
    ) -> Result<Self, Error> {
        let stores = [old, new];
        let ordered = in_order(stores.clone()).await?;
        let record = Record::open(stores.clone(), phase, label, env).await?;
        let single = |side: usize| {
            let (store, record) = (Arc::clone(&stores[side]), Arc::clone(&record));
            Active::Single(Single { store, record, guarantees: GuaranteeCache::default() })
        };
        let backend = match phase {
            Phase::Old => single(0),
            Phase::New => single(1),
            Phase::Both => Active::Both(Both::new(ordered)),
        };
        Ok(Self { phase, stores, record, backend })
    }

    /// The phase of this process.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }
}

/// The two stores in the order of acquisition. Not by role: a fleet that rolls back takes them in the
/// same order.
async fn in_order(mut stores: [Arc<dyn Backend>; 2]) -> Result<[Arc<dyn Backend>; 2], Error> {
    let refuse =
        |message: String| Err(Error::new(ErrorKind::Config, message).at("migration", "new"));
    // Told before the first step is made, not in the midst of it.
    if let Some(store) = stores.iter().find(|store| !store.guarantees().raise) {
        return refuse(format!("{} cannot raise a token, which moving needs", store.kind()));
    }
    let identities = [stores[0].identity().await?, stores[1].identity().await?];
    if identities[0] == identities[1] {
        return refuse(format!("both stores are {}; two are needed", identities[0]));
    }
    if identities[0] > identities[1] {
        stores.reverse();
    }
    Ok(stores)
}

impl Migration {
    fn backend(&self) -> &dyn Backend {
        match &self.backend {
            Active::Single(single) => single,
            Active::Both(both) => both,
        }
    }
}

#[async_trait]
impl Backend for Migration {
    fn kind(&self) -> &'static str {
        "migration"
    }

    async fn identity(&self) -> Result<String, Error> {
        let refusal = "two stores have no one identity: migrations do not nest";
        Err(Error::new(ErrorKind::Unsupported, refusal).at("migration", "identity"))
    }

    fn answers_at_once(&self) -> bool {
        self.backend().answers_at_once()
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.backend().guarantees()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        self.backend().try_acquire(request).await
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        self.backend().enqueue(request).await
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        self.backend().abandon(request).await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        self.backend().renew(grants, sent).await
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        self.backend().release(grant, options).await
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.backend().raise(grant, token).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        self.backend().inspect(name).await
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        let mut page = self.backend().list(from).await?;
        // They are no locks of the user's; `Fleet` shows them.
        page.locks.retain(|lock| !is_record(&lock.name));
        Ok(page)
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        self.backend().force_release(name).await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.backend().init(init).await
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        self.backend().clock_difference_micros().await
    }

    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        self.backend().highest_token().await
    }

    async fn warnings(&self) -> Result<Vec<String>, Error> {
        self.backend().warnings().await
    }

    async fn close(&self) {
        self.record.close().await;
        for store in &self.stores {
            store.close().await;
        }
    }
}
