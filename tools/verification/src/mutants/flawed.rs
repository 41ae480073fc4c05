//! A wrapper that adds one flaw to a sound backend.

#![deny(clippy::missing_trait_methods)]

use std::{
    collections::HashSet,
    future::pending,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Busy, Cursor, Enqueued, Env as _, Error, ErrorKind, FencingToken, Grant,
    Guarantees, Init, Instant, LockName, LockState, Mode, Mutex, OwnerId, OwnerLabel, Page,
    QuarantineUse, Quarantined, RecordRead, RecordWrite, ReleaseOptions, ReleaseOutcome, Released,
    Renewal, Request, StoreSettings, SystemEnv, Waiter, WriteOutcome,
};
use tokio::{sync::watch, task::AbortHandle};

use super::{
    Flaw,
    records::FlawedRecords,
    waiters::{NeverSignalled, Undead, WokenByAll, never_polls},
};

#[derive(Debug)]
pub(super) struct Flawed {
    pub(super) sound: Arc<dyn Backend>,
    pub(super) flaw: Option<Flaw>,
    /// Owners that were granted something.
    served: Mutex<HashSet<OwnerId>>,
    /// Names with an entry at the front of the queue that is dead, and that nobody passes.
    blocked: Arc<Mutex<HashSet<LockName>>>,
    records: FlawedRecords,
    /// Signals each release.
    wake_all: watch::Sender<()>,
    /// Ends with the runtime of the first attempt.
    task: OnceLock<AbortHandle>,
}

impl Flawed {
    pub(super) fn new(sound: Arc<dyn Backend>, flaw: Option<Flaw>) -> Self {
        let (served, blocked, wake_all) = Default::default();
        let (records, task) = (FlawedRecords::new(Arc::clone(&sound), flaw), OnceLock::new());
        Self { sound, flaw, served, blocked, records, wake_all, task }
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
        match self.has(Flaw::FoldsCase) {
            true => LockName::new(name.as_str().to_lowercase()).unwrap(),
            false => name.clone(),
        }
    }

    /// The request as the sound backend gets it.
    fn sent_on(&self, request: &Request) -> Request {
        let mut request = request.clone();
        request.name = self.name(&request.name);
        let longest = self.guarantees().longest_lease;
        match self.flaw {
            Some(Flaw::IgnoresTheFloor | Flaw::ForgetsATokenAhead) => {
                request.floor = FencingToken::ZERO
            }
            Some(Flaw::HalvesTheLease) => request.lease /= 2,
            Some(Flaw::SetsAnyLease) => request.lease = request.lease.min(longest),
            Some(Flaw::ReadsAlone) => request.mode = Mode::Exclusive,
            Some(Flaw::OutlivesTheLease) => request.lease = longest,
            _ => {}
        }
        request
    }

    /// The grant as the client gets it.
    fn answered(&self, request: &Request, mut grant: Grant) -> Grant {
        grant.name = request.name.clone();
        grant.lease = request.lease;
        let one = after(FencingToken::ZERO);
        match self.flaw {
            Some(Flaw::ForgetsATokenAhead) => grant.token = grant.token.max(after(request.floor)),
            Some(Flaw::ReadersTokensStandStill) if grant.mode == Mode::Shared => grant.token = one,
            Some(Flaw::TokensStandStill) => grant.token = one,
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
        if self.has(Flaw::HalvesTheLease) {
            grant.lease /= 2;
        }
        grant
    }
}

fn after(token: FencingToken) -> FencingToken {
    FencingToken::new(token.get() + 1).unwrap()
}

fn soon(last: FencingToken) -> Attempt {
    Attempt::Busy(Busy::new(None, last, Duration::from_millis(10)))
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
        // Nobody ever waits.
        if self.has(Flaw::GrantsToAll) {
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
        Ok(match self.sound.try_acquire(&self.sent_on(request)).await? {
            Attempt::Granted(grant) if self.blocked.lock().contains(&request.name) => {
                self.sound.abandon(request).await?;
                soon(grant.token)
            }
            Attempt::Granted(grant) => {
                let mut grant = self.answered(request, grant);
                match self.flaw {
                    Some(
                        Flaw::RefusesItsOwner | Flaw::ShortensByARepeat | Flaw::MintsAnewForARepeat,
                    ) if self.is_first(request.owner) => {}
                    Some(Flaw::RefusesItsOwner) => return Ok(soon(grant.token)),
                    Some(Flaw::ShortensByARepeat) => {
                        let shorter = ReleaseOptions::new().with_keep(request.lease);
                        self.sound.release(&grant, shorter).await?;
                    }
                    Some(Flaw::MintsAnewForARepeat) => grant.token = after(grant.token),
                    _ => {}
                }
                Attempt::Granted(grant)
            }
            Attempt::Busy(mut busy) => {
                let readers = busy.holder.as_ref().is_some_and(|it| it.owner == OwnerId::READERS);
                if self.has(Flaw::GrantsToAll) || readers && self.has(Flaw::WritesBesideReaders) {
                    return Ok(Attempt::Granted(Grant::new(request, after(busy.token))));
                }
                match self.flaw {
                    Some(Flaw::WakesNobody) => busy = never_polls(busy),
                    Some(Flaw::AsksAtOneRate) => busy.retry_after = Duration::from_millis(500),
                    Some(Flaw::HidesTheToken) => busy.token = FencingToken::ZERO,
                    _ => {}
                }
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
        let (waiter, busy) = match self.sound.enqueue(&self.sent_on(request)).await? {
            Enqueued::Waiting(waiter, busy) => (waiter, busy),
            other => return Ok(other),
        };
        let served = self.served.lock().len();
        let silent = match self.flaw {
            Some(Flaw::ServesOneReader) => served > 0 || !self.is_first(request.owner),
            Some(Flaw::WakesNobody) => true,
            _ => self.has_ended(),
        };
        if silent {
            return Ok(Enqueued::Waiting(Box::new(NeverSignalled), never_polls(busy)));
        }
        let waiter: Box<dyn Waiter> = match self.flaw {
            Some(Flaw::WakesEveryWaiter) => {
                Box::new(WokenByAll { waiter, wake_all: self.wake_all.subscribe() })
            }
            Some(Flaw::KeepsDeadEntries | Flaw::WithdrawsNothing) => {
                let (name, blocked) = (request.name.clone(), Arc::clone(&self.blocked));
                let leaves = self.has(Flaw::KeepsDeadEntries);
                Box::new(Undead { waiter: Some(waiter), name, blocked, leaves })
            }
            _ => waiter,
        };
        Ok(Enqueued::Waiting(waiter, busy))
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
        let renamed: Vec<Grant> = grants.iter().map(|grant| self.renamed(grant)).collect();
        let renewed = |grant: &&Grant| Renewal::Renewed { from: sent, lease: grant.lease };
        if self.has_ended() {
            let error = Error::new(ErrorKind::Unavailable, "the runtime of the renewals has ended");
            return grants.iter().map(|_| Renewal::Unknown(error.clone())).collect();
        }
        if self.has(Flaw::RenewsNothing) {
            return grants.iter().map(renewed).collect();
        }
        let mut answers = self.sound.renew(&renamed.iter().collect::<Vec<_>>(), sent).await;
        if self.has(Flaw::AnswersBackwards) {
            answers.reverse();
        }
        for (grant, answer) in renamed.iter().zip(&mut answers) {
            match (self.flaw, &mut *answer) {
                (Some(Flaw::CountsRenewalsFromTheReply), Renewal::Renewed { from, .. }) => {
                    *from = SystemEnv.now();
                }
                (Some(Flaw::HalvesTheLease), Renewal::Renewed { lease, .. }) => *lease *= 2,
                // A grant that is gone has no token to raise.
                (Some(Flaw::RenewsTheToken), _) => {
                    let _ = self.sound.raise(grant, after(grant.token)).await;
                }
                (Some(Flaw::RenewsForAnybody), Renewal::Lost(_)) => *answer = renewed(&grant),
                (Some(Flaw::Resurrects), Renewal::Lost(_)) => {
                    let (name, label) = (grant.name.clone(), OwnerLabel::of_this_process());
                    let request = Request::new(name, grant.owner, label, grant.lease, sent);
                    if let Ok(Attempt::Granted(_)) = self.sound.try_acquire(&request).await {
                        *answer = renewed(&grant);
                    }
                }
                _ => {}
            }
        }
        answers
    }

    async fn reown(&self, grant: &Grant, request: &Request) -> Result<Option<Grant>, Error> {
        self.hand_over(&self.renamed(grant), &self.sent_on(request)).await
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        self.records.read(&self.name(name)).await
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        if self.has(Flaw::RefusesARecordsRepeat) && !self.is_first(grant.owner) {
            return Ok(WriteOutcome::NotHeld);
        }
        self.records.write(&self.renamed(grant), write.clone()).await
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        let renamed = self.renamed(grant);
        self.wake_all.send_replace(());
        self.records.note_release(&renamed.name);
        let shared = grant.mode == Mode::Shared;
        if self.has(Flaw::ReleasesForAnybody) || shared && self.has(Flaw::EndsWithTheFirstReader) {
            return self.force_release(&grant.name).await.map(Released::plain);
        }
        if self.has(Flaw::ReleasesNothing) {
            return Ok(Released::plain(ReleaseOutcome::Released));
        }
        let options = if self.has(Flaw::KeepsNothing) { options.with_keep(None) } else { options };
        let mut released = self.sound.release(&renamed, options).await?;
        match (self.flaw, released.outcome) {
            (Some(Flaw::SaysReleasedToAll), _) => released.outcome = ReleaseOutcome::Released,
            (Some(Flaw::CountsReleases), ReleaseOutcome::NotHeld) => {
                self.force_release(&grant.name).await?;
            }
            _ => {}
        }
        Ok(released)
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
        page.locks.extend(self.records.listed());
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
