//! A wrapper that adds one flaw to a sound backend.

#![deny(clippy::missing_trait_methods)]

use std::{
    collections::{HashMap, HashSet},
    future::pending,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Busy, Cursor, Enqueued, Env as _, Error, ErrorKind, FencingToken, Grant,
    Guarantees, Init, Instant, LockName, LockState, Mode, Mutex, OwnerId, OwnerLabel, Page,
    QuarantineUse, Quarantined, Record, RecordRead, RecordWrite, ReleaseOptions, ReleaseOutcome,
    Released, Renewal, Request, StoreSettings, SystemEnv, WriteOutcome,
};
use tokio::{sync::watch, task::AbortHandle};

use super::{
    Flaw,
    waiters::{NeverSignalled, Undead, WokenByAll},
};

#[derive(Debug)]
pub(super) struct Flawed {
    sound: Arc<dyn Backend>,
    flaw: Option<Flaw>,
    /// Owners that were granted something.
    served: Mutex<HashSet<OwnerId>>,
    /// Names with an entry at the front of the queue that is dead, and that nobody passes.
    blocked: Arc<Mutex<HashSet<LockName>>>,
    /// Records that stand in the place of those of the sound backend.
    records: Mutex<HashMap<LockName, Option<Record>>>,
    /// Signals each release.
    wake_all: watch::Sender<()>,
    /// Ends with the runtime of the first attempt.
    task: OnceLock<AbortHandle>,
}

impl Flawed {
    pub(super) fn new(sound: Arc<dyn Backend>, flaw: Option<Flaw>) -> Self {
        let (served, blocked) = (Mutex::default(), Arc::default());
        let (wake_all, task) = (watch::Sender::new(()), OnceLock::new());
        Self { sound, flaw, served, blocked, records: Mutex::default(), wake_all, task }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn has_ended(&self) -> bool {
        self.has(Flaw::EndsWithItsRuntime) && self.task.get().is_some_and(AbortHandle::is_finished)
    }

    fn is_first(&self, owner: OwnerId) -> bool {
        self.served.lock().insert(owner)
    }

    fn name(&self, name: &LockName) -> LockName {
        if self.has(Flaw::FoldsCase) {
            LockName::new(name.as_str().to_lowercase()).unwrap()
        } else {
            name.clone()
        }
    }

    /// The request as the sound backend gets it.
    fn sent_on(&self, request: &Request) -> Request {
        let mut request = request.clone();
        request.name = self.name(&request.name);
        match self.flaw {
            Some(Flaw::IgnoresTheFloor | Flaw::ForgetsATokenAhead) => {
                request.floor = FencingToken::ZERO
            }
            Some(Flaw::HalvesTheLease) => request.lease /= 2,
            Some(Flaw::SetsAnyLease) => {
                request.lease = request.lease.min(self.guarantees().longest_lease);
            }
            Some(Flaw::ReadsAlone) => request.mode = Mode::Exclusive,
            Some(Flaw::OutlivesTheLease) => request.lease = self.guarantees().longest_lease,
            _ => {}
        }
        request
    }

    /// The grant as the client gets it.
    fn answered(&self, request: &Request, mut grant: Grant) -> Grant {
        grant.name = request.name.clone();
        grant.lease = request.lease;
        match self.flaw {
            Some(Flaw::ForgetsATokenAhead) => grant.token = grant.token.max(after(request.floor)),
            Some(Flaw::ReadersTokensStandStill) if grant.mode == Mode::Shared => {
                grant.token = FencingToken::new(1).unwrap();
            }
            Some(Flaw::TokensStandStill) => grant.token = FencingToken::new(1).unwrap(),
            // As if the reply had taken ten seconds.
            Some(Flaw::CountsFromTheReply) => {
                grant.from = SystemEnv.now() + Duration::from_secs(10);
            }
            _ => {}
        }
        grant
    }

    fn renamed(&self, grant: &Grant) -> Grant {
        let mut grant = grant.clone();
        grant.name = self.name(&grant.name);
        grant
    }
}

fn after(token: FencingToken) -> FencingToken {
    FencingToken::new(token.get() + 1).unwrap()
}

fn never_polls(mut busy: Busy) -> Busy {
    busy.retry_after = Duration::from_secs(3600);
    busy
}

#[async_trait]
impl Backend for Flawed {
    fn kind(&self) -> &'static str {
        self.sound.kind()
    }

    async fn identity(&self) -> Result<String, Error> {
        self.sound.identity().await
    }

    fn answers_at_once(&self) -> bool {
        self.sound.answers_at_once()
    }

    fn was_busy(&self, name: &LockName) -> bool {
        self.sound.was_busy(name)
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        let mut promised = self.sound.guarantees();
        if self.has(Flaw::GrantsAfterARestore) {
            Arc::make_mut(&mut promised).quarantine = QuarantineUse::On;
        }
        if self.has(Flaw::GrantsToAll) {
            // Nobody ever waits.
            Arc::make_mut(&mut promised).fair = false;
        }
        promised
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        if self.has(Flaw::EndsWithItsRuntime) {
            self.task.get_or_init(|| tokio::spawn(pending::<()>()).abort_handle());
        }
        if self.has(Flaw::LastLeaseCounts) && request.mode == Mode::Shared {
            self.sound.force_release(&request.name).await?;
        }
        let attempt = self.sound.try_acquire(&self.sent_on(request)).await?;
        Ok(match attempt {
            Attempt::Granted(grant) if self.blocked.lock().contains(&request.name) => {
                self.sound.abandon(request).await?;
                Attempt::Busy(Busy::new(None, grant.token, Duration::from_millis(10)))
            }
            Attempt::Granted(grant) => {
                if self.has(Flaw::RefusesItsOwner) && !self.is_first(request.owner) {
                    let retry_after = Duration::from_millis(10);
                    return Ok(Attempt::Busy(Busy::new(None, grant.token, retry_after)));
                }
                if self.has(Flaw::ShortensByARepeat) && !self.is_first(request.owner) {
                    let shorter = ReleaseOptions::new().with_keep(request.lease);
                    self.sound.release(&grant, shorter).await?;
                }
                let mut grant = self.answered(request, grant);
                if self.has(Flaw::MintsAnewForARepeat) && !self.is_first(request.owner) {
                    grant.token = after(grant.token);
                }
                Attempt::Granted(grant)
            }
            Attempt::Busy(busy) if self.has(Flaw::GrantsToAll) => {
                Attempt::Granted(Grant::new(request, after(busy.token)))
            }
            Attempt::Busy(busy)
                if self.has(Flaw::WritesBesideReaders)
                    && busy.holder.as_ref().is_some_and(|it| it.owner == OwnerId::READERS) =>
            {
                Attempt::Granted(Grant::new(request, after(busy.token)))
            }
            Attempt::Busy(busy) if self.has(Flaw::WakesNobody) => Attempt::Busy(never_polls(busy)),
            Attempt::Busy(mut busy) if self.has(Flaw::AsksAtOneRate) => {
                busy.retry_after = Duration::from_millis(500);
                Attempt::Busy(busy)
            }
            Attempt::Busy(mut busy) if self.has(Flaw::HidesTheToken) => {
                busy.token = FencingToken::ZERO;
                Attempt::Busy(busy)
            }
            other => other,
        })
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        if self.has(Flaw::KeepsNoQueue) {
            return Ok(match self.try_acquire(request).await? {
                Attempt::Granted(grant) => Enqueued::Granted(grant),
                Attempt::Busy(busy) => Enqueued::Waiting(Box::new(NeverSignalled), busy),
                Attempt::Quarantined(quarantined) => Enqueued::Quarantined(quarantined),
            });
        }
        match self.sound.enqueue(&self.sent_on(request)).await? {
            Enqueued::Waiting(_, busy)
                if self.has(Flaw::ServesOneReader) && !self.served.lock().is_empty() =>
            {
                Ok(Enqueued::Waiting(Box::new(NeverSignalled), never_polls(busy)))
            }
            Enqueued::Waiting(waiter, busy) if self.has(Flaw::ServesOneReader) => {
                self.is_first(request.owner);
                Ok(Enqueued::Waiting(waiter, busy))
            }
            Enqueued::Waiting(_, busy) if self.has(Flaw::WakesNobody) || self.has_ended() => {
                Ok(Enqueued::Waiting(Box::new(NeverSignalled), never_polls(busy)))
            }
            Enqueued::Waiting(waiter, busy) if self.has(Flaw::WakesEveryWaiter) => {
                let wake_all = self.wake_all.subscribe();
                Ok(Enqueued::Waiting(Box::new(WokenByAll { waiter, wake_all }), busy))
            }
            Enqueued::Waiting(waiter, busy)
                if self.has(Flaw::KeepsDeadEntries) || self.has(Flaw::WithdrawsNothing) =>
            {
                let (name, blocked) = (request.name.clone(), Arc::clone(&self.blocked));
                let leaves = self.has(Flaw::KeepsDeadEntries);
                let undead = Undead { waiter: Some(waiter), name, blocked, leaves };
                Ok(Enqueued::Waiting(Box::new(undead), busy))
            }
            other => Ok(other),
        }
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let request = self.sent_on(request);
        match self.flaw {
            Some(Flaw::AbandonsNothing) => Ok(()),
            Some(Flaw::LeavesNoTombstone) => {
                let grant = Grant::new(&request, FencingToken::ZERO);
                self.sound.release(&grant, ReleaseOptions::default()).await.map(drop)
            }
            _ => self.sound.abandon(&request).await,
        }
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let mut renamed: Vec<Grant> = grants.iter().map(|grant| self.renamed(grant)).collect();
        if self.has(Flaw::HalvesTheLease) {
            renamed.iter_mut().for_each(|grant| grant.lease /= 2);
        }
        if self.has_ended() {
            let error = Error::new(ErrorKind::Unavailable, "the runtime of the renewals has ended");
            return grants.iter().map(|_| Renewal::Unknown(error.clone())).collect();
        }
        if self.has(Flaw::RenewsNothing) {
            let answer = |grant: &&Grant| Renewal::Renewed { from: sent, lease: grant.lease };
            return grants.iter().map(answer).collect();
        }
        let mut answers = self.sound.renew(&renamed.iter().collect::<Vec<_>>(), sent).await;
        if self.has(Flaw::AnswersBackwards) {
            answers.reverse();
        }
        for (grant, answer) in renamed.iter().zip(&mut answers) {
            if let Renewal::Renewed { from, lease } = answer {
                match self.flaw {
                    Some(Flaw::CountsRenewalsFromTheReply) => *from = SystemEnv.now(),
                    Some(Flaw::HalvesTheLease) => *lease *= 2,
                    _ => {}
                }
            }
            if self.has(Flaw::RenewsTheToken) {
                // A grant that is gone has no token to raise.
                let _ = self.sound.raise(grant, after(grant.token)).await;
            }
            if !matches!(answer, Renewal::Lost(_)) {
                continue;
            }
            if self.has(Flaw::RenewsForAnybody) {
                *answer = Renewal::Renewed { from: sent, lease: grant.lease };
            }
            if self.has(Flaw::Resurrects) {
                let label = OwnerLabel::of_this_process();
                let (name, lease) = (grant.name.clone(), grant.lease);
                let request = Request::new(name, grant.owner, label, lease, sent);
                if let Ok(Attempt::Granted(_)) = self.sound.try_acquire(&request).await {
                    *answer = Renewal::Renewed { from: sent, lease };
                }
            }
        }
        answers
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        let name = self.name(name);
        let mut read = self.sound.read_record(&name).await?;
        if let Some(other) = self.records.lock().get(&name) {
            read.record = other.clone();
        }
        match (self.flaw, &mut read.record) {
            (Some(Flaw::TimesRecordsByTheRead), Some(record)) => record.written = read.now,
            (Some(Flaw::KeepsRecordsBriefly), kept) => {
                let brief = RecordWrite::SHORTEST_KEPT / 2;
                kept.take_if(|record| read.now.since(record.written) > brief);
            }
            (Some(Flaw::NeverComplete), _) => read.complete_since = read.now,
            _ => {}
        }
        Ok(read)
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let mut write = write.clone();
        match self.flaw {
            Some(Flaw::WritesLateRecords) => write.number = SystemEnv.now().as_nanos(),
            Some(Flaw::CutsRecords) => write.value.truncate(255),
            _ => {}
        }
        let grant = self.renamed(grant);
        if self.has(Flaw::RefusesARecordsRepeat) && !self.is_first(grant.owner) {
            return Ok(WriteOutcome::NotHeld);
        }
        let outcome = self.sound.write_record(&grant, &write).await?;
        if self.has(Flaw::ListsRecords) {
            let record = self.sound.read_record(&grant.name).await?.record;
            self.records.lock().insert(grant.name.clone(), record);
        }
        let last = self.read_record(&grant.name).await?;
        let forges = match self.flaw {
            Some(Flaw::WritesRecordsForAnybody) => true,
            // Also for a grant that is gone, until a later one has written.
            Some(Flaw::ComparesRecordsTokens) => {
                last.record.is_none_or(|record| record.token <= grant.token)
            }
            _ => false,
        };
        if forges {
            let record = Record::new(write.value, grant.token, last.now);
            self.records.lock().insert(grant.name, Some(record));
            return Ok(WriteOutcome::Written);
        }
        Ok(outcome)
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        let renamed = self.renamed(grant);
        self.wake_all.send_replace(());
        if self.has(Flaw::ForgetsRecordsWithTheLock) {
            self.records.lock().insert(renamed.name.clone(), None);
        }
        match self.flaw {
            Some(Flaw::ReleasesNothing) => Ok(Released::plain(ReleaseOutcome::Released)),
            Some(Flaw::SaysReleasedToAll) => {
                let Released { next, .. } = self.sound.release(&renamed, options).await?;
                Ok(Released::new(ReleaseOutcome::Released, next))
            }
            Some(Flaw::ReleasesForAnybody) => {
                self.sound.force_release(&renamed.name).await.map(Released::plain)
            }
            Some(Flaw::EndsWithTheFirstReader) if grant.mode == Mode::Shared => {
                self.sound.force_release(&renamed.name).await.map(Released::plain)
            }
            Some(Flaw::CountsReleases) => {
                let released = self.sound.release(&renamed, options).await?;
                if released.outcome == ReleaseOutcome::NotHeld {
                    self.sound.force_release(&renamed.name).await?;
                }
                Ok(released)
            }
            Some(Flaw::KeepsNothing) => self.sound.release(&renamed, options.with_keep(None)).await,
            _ => self.sound.release(&renamed, options).await,
        }
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        if self.has(Flaw::RaisesNothing) {
            return Ok(());
        }
        self.sound.raise(&self.renamed(grant), token).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        let state = self.sound.inspect(&self.name(name)).await?;
        Ok(state.map(|mut state| {
            state.holder.take_if(|_| self.has(Flaw::TellsNoHolder));
            state.readers.take_if(|_| self.has(Flaw::TellsNoReaders));
            state
        }))
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        let mut page = self.sound.list(from).await?;
        if self.has(Flaw::ListsHalf) {
            page.locks.truncate(page.locks.len() / 2);
        }
        if self.has(Flaw::ListsTwice) {
            page.locks.extend(page.locks.clone());
        }
        if self.has(Flaw::ListsRecords) {
            let owned = self.records.lock();
            let of_record =
                |name: &LockName| LockState::new(name.clone(), None, FencingToken::ZERO);
            page.locks.extend(owned.keys().map(of_record));
        }
        Ok(page)
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        if self.has(Flaw::ForcesNothing) {
            return Ok(ReleaseOutcome::Released);
        }
        self.sound.force_release(&self.name(name)).await
    }

    async fn force_release_if(
        &self,
        name: &LockName,
        token: FencingToken,
    ) -> Result<ReleaseOutcome, Error> {
        if self.has(Flaw::ForcesAnyToken) {
            return self.sound.force_release(&self.name(name)).await;
        }
        self.sound.force_release_if(&self.name(name), token).await
    }

    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        self.sound.quarantine().await
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        let has_flaw = self.has(Flaw::AcceptsARestore) || self.has(Flaw::GrantsAfterARestore);
        let restored = init.restored && !has_flaw;
        let mut settings = self.sound.init(&init.clone().with_restored(restored)).await?;
        if init.restored {
            settings.grants_in = settings.longest_lease;
        }
        Ok(settings)
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        self.sound.clock_difference_micros().await
    }

    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        self.sound.highest_token().await
    }

    async fn warnings(&self) -> Result<Vec<String>, Error> {
        self.sound.warnings().await
    }

    async fn close(&self) {
        self.sound.close().await;
    }
}
