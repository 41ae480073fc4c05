//! The backend of a migration: opens the record of this process, and forwards each call to its
//! phase.

#![deny(clippy::missing_trait_methods)]

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Cursor, Enqueued, Env, Error, ErrorKind, FencingToken, Grant, Guarantees,
    Init, Instant, LockName, LockState, OwnerLabel, Page, Quarantined, RecordRead, RecordWrite,
    ReleaseOptions, ReleaseOutcome, Released, Renewal, Request, StoreSettings, SystemEnv,
    WriteOutcome,
};

use crate::{
    both::Both,
    end_phase::EndPhase,
    guarantees::of_one,
    phase::Phase,
    record::{OwnRecord, is_record},
    records::{self, Other},
};

/// A backend over an old and a new store.
///
/// In [`Phase::Both`] a lock is held in both stores. It has the larger of their two tokens, and
/// both stores know this token before the client sees it. A waiter is woken as the stores wake
/// theirs, but not served in order. In the other phases only one store is used, with tokens above
/// those of the other.
///
/// Each process keeps a record of its phase in both stores, and
/// [`Fleet::survey`](crate::Fleet::survey) reads these records. In phases `Old` and `New`, a
/// process that has lost its record in the store that it uses neither acquires nor renews until the
/// record is written again.
#[derive(Debug)]
pub struct Migration {
    phase: Phase,
    /// The old and the new store.
    stores: [Arc<dyn Backend>; 2],
    record: Arc<OwnRecord>,
    active: Active,
}

#[derive(Debug)]
enum Active {
    End(EndPhase),
    Both(Both),
}

impl Migration {
    /// A migration from `old` to `new`, with this process in `phase`. Its record has the label
    /// `host:pid`.
    ///
    /// # Errors
    /// `Config` if both are the same store; if one of them cannot raise a token; if a process two
    /// phases away is alive, or was alive less than a longest lease ago (the message names it); and
    /// in an end phase if the store's clock is behind the other's by its longest lease or more.
    /// `Unsupported` if a store has no identity. Otherwise the errors of the stores: each phase
    /// uses both when it starts.
    ///
    /// # Cancel safety
    ///
    /// A record that was already written is released in the background.
    pub async fn new(
        old: Arc<dyn Backend>,
        new: Arc<dyn Backend>,
        phase: Phase,
    ) -> Result<Self, Error> {
        let label = OwnerLabel::of_this_process();
        Self::with_env(old, new, phase, label, Arc::new(SystemEnv)).await
    }

    /// The same with another label, and with a real or simulated environment.
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
        let record = OwnRecord::open(stores.clone(), phase, label, env).await?;
        let end = |side: usize| {
            let [store, other] = [side, 1 - side].map(|side| Arc::clone(&stores[side]));
            let is_first = Arc::ptr_eq(&other, &ordered[0]);
            let other = Other { store: other, is_first };
            Active::End(EndPhase { store, other, record: Arc::clone(&record) })
        };
        let active = match phase {
            Phase::Old => end(0),
            Phase::New => end(1),
            Phase::Both => Active::Both(Both::new(ordered)),
        };
        Ok(Self { phase, stores, record, active })
    }

    /// The phase of this process.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }
}

/// The two stores in the order of acquisition. The order does not depend on their roles, so that
/// processes that move back take them in the same order.
async fn in_order(mut stores: [Arc<dyn Backend>; 2]) -> Result<[Arc<dyn Backend>; 2], Error> {
    let refuse =
        |message: String| Err(Error::new(ErrorKind::Config, message).at("migration", "new"));
    // Checked in every phase, so that the operator learns of it before the first step.
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
    /// What carries out the calls that an end phase passes to its store unchanged.
    fn store(&self) -> &dyn Backend {
        match &self.active {
            Active::End(end) => &*end.store,
            Active::Both(both) => both,
        }
    }

    /// Without a runtime the record is kept where it was kept until now, or is lost.
    fn keep_record(&self) {
        let _ = self.record.keep_on_this_runtime();
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
        self.store().answers_at_once()
    }

    fn was_busy(&self, name: &LockName) -> bool {
        self.store().was_busy(name)
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        match &self.active {
            Active::End(end) => Arc::new(of_one(&*end.store, &*end.other.store)),
            Active::Both(both) => both.guarantees(),
        }
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        self.keep_record();
        match &self.active {
            Active::End(end) => end.try_acquire(request).await,
            Active::Both(both) => both.try_acquire(request).await,
        }
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        self.keep_record();
        match &self.active {
            Active::End(end) => end.enqueue(request).await,
            Active::Both(both) => both.enqueue(request).await,
        }
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        self.store().abandon(request).await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        self.keep_record();
        match &self.active {
            Active::End(end) => end.renew(grants, sent).await,
            Active::Both(both) => both.renew(grants, sent).await,
        }
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        match &self.active {
            Active::End(end) => end.release(grant, options).await,
            Active::Both(both) => both.release(grant, options).await,
        }
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.store().raise(grant, token).await
    }

    async fn reown(&self, grant: &Grant, _request: &Request) -> Result<Option<Grant>, Error> {
        let message = "a store that is being migrated hands no held lock over";
        Err(Error::new(ErrorKind::Unsupported, message).at("migration", "reown").on(&grant.name))
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        match &self.active {
            Active::End(end) => end.read_record(name).await,
            Active::Both(both) => both.read_record(name).await,
        }
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        match &self.active {
            Active::End(end) => end.write_record(grant, write).await,
            Active::Both(both) => both.write_record(grant, write).await,
        }
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        self.store().inspect(name).await
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        let mut page = self.store().list(from).await?;
        // Records are not locks of the application. `Fleet` shows them.
        page.locks.retain(|lock| !is_record(&lock.name));
        Ok(page)
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        self.store().force_release(name).await
    }

    async fn force_release_if(
        &self,
        name: &LockName,
        token: FencingToken,
    ) -> Result<ReleaseOutcome, Error> {
        self.store().force_release_if(name, token).await
    }

    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        self.store().quarantine().await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        if let (Active::End(end), true) = (&self.active, init.records_complete) {
            records::set_complete(&*end.other.store).await?;
        }
        self.store().init(init).await
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        self.store().clock_difference_micros().await
    }

    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        self.store().highest_token().await
    }

    async fn warnings(&self) -> Result<Vec<String>, Error> {
        self.store().warnings().await
    }

    async fn close(&self) {
        self.record.close().await;
        for store in &self.stores {
            store.close().await;
        }
    }
}
