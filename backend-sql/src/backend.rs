//! The trait `Backend`, written once for every database.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use lock_core::{
    Attempt, Backend, Blocked, Busy, Cursor, Enqueued, Env as _, Error, ErrorKind, FencingToken,
    Grant, Guarantees, Init, Instant, LockName, LockState, LossReason, Mode, Page, Quarantined,
    RecordRead, RecordWrite, ReleaseOptions, ReleaseOutcome, Released, Renewal, Request,
    StoreSettings, SystemEnv, UnknownErrors, WriteOutcome, check_lease, check_token,
};
use tokio::time::timeout;

use crate::{
    dialect::{Dialect, Handed, Left, Row},
    error::UnknownRefusal,
    gate,
    page::page,
    renewal,
    strategy::{self, Strategy, Taken, Versions},
    tunables::{FAR, GRACE, LONGEST_POLL, PAGE, SWEEP_EVERY},
};

/// Locks in an SQL database.
#[derive(Debug)]
pub struct SqlBackend<D> {
    dialect: Arc<D>,
    strategy: Strategy,
    versions: Versions,
    releases: AtomicU64,
    unknown_errors: UnknownErrors,
}

impl<D: Dialect> SqlBackend<D> {
    /// Over this database, by this strategy.
    pub fn new(dialect: D, strategy: Strategy) -> Self {
        Self {
            dialect: Arc::new(dialect),
            strategy,
            versions: Versions::default(),
            // A random start, so that processes that release once and end also sweep now and then.
            releases: AtomicU64::new(SystemEnv.random() as u64 % SWEEP_EVERY),
            unknown_errors: UnknownErrors::default(),
        }
    }

    /// If a try of the attempt may have been carried out, the attempt is in doubt, whatever the
    /// next try was answered: the first try may arrive late, and take the lock when it is free
    /// again. Another call of this client may have had the broken connection. Then there is nothing
    /// to clean up, and the clean-up costs one statement.
    async fn attempt(&self, request: &Request) -> Result<Attempt, Error> {
        let _pass = gate::attempt(self.dialect.gate()).await?;
        let broken = self.dialect.broken();
        let answer = self.try_attempt(request).await;
        if self.dialect.broken() == broken {
            return answer;
        }
        let message = "a connection broke, and the attempt may have been carried out";
        let doubt = Error::new(ErrorKind::OutcomeUnknown, message);
        match answer {
            Ok(Attempt::Granted(grant)) => Ok(Attempt::Granted(grant.doubted())),
            Ok(Attempt::Busy(busy)) => Err(doubt.blocked_by(Blocked::Busy(busy))),
            Ok(Attempt::Quarantined(held_back)) => {
                Err(doubt.blocked_by(Blocked::Quarantined(held_back)))
            }
            Err(error) if error.is_retryable() && !error.is_ambiguous() => {
                Err(doubt.with_source(error))
            }
            Err(error) => Err(error),
        }
    }

    async fn try_attempt(&self, request: &Request) -> Result<Attempt, Error> {
        // If the tables were made after this client connected, it reads the store's longest lease
        // only here.
        self.dialect.agree_once().await?;
        // A longer lease could outlast a quarantine.
        check_lease(request.lease, self.guarantees().longest_lease)?;
        self.check_token(request.floor)?;
        let taken = match (self.strategy, request.mode) {
            (Strategy::Optimistic, Mode::Exclusive) => {
                strategy::optimistic(&*self.dialect, &self.versions, request).await?
            }
            _ => strategy::primary_key(&*self.dialect, &self.versions, request).await?,
        };
        Ok(match taken {
            Taken::Yes(grant) => {
                if grant.mode == Mode::Shared {
                    self.dialect.tell_next_reader(request).await;
                }
                Attempt::Granted(grant)
            }
            Taken::No(row) if row.as_ref().is_some_and(Row::is_taken) => {
                Attempt::Busy(busy(&*self.dialect, request, row))
            }
            Taken::No(row) => match self.dialect.quarantine().await? {
                Some(quarantined) => Attempt::Quarantined(quarantined),
                None => Attempt::Busy(busy(&*self.dialect, request, row)),
            },
        })
    }

    /// The request as this database handles it: without shared locks, a reader asks for an
    /// exclusive lock.
    fn supported(request: &Request) -> Cow<'_, Request> {
        if D::SHARES || request.mode == Mode::Exclusive {
            return Cow::Borrowed(request);
        }
        Cow::Owned(request.clone().with_mode(Mode::Exclusive))
    }

    /// A token further ahead of the clock than the longest lease could be repeated after a loss of
    /// data.
    fn check_token(&self, token: FencingToken) -> Result<(), Error> {
        check_token(token, SystemEnv.wall_micros(), self.guarantees().longest_lease)
    }

    async fn give_back(
        &self,
        grant: &Grant,
        keep: Option<Duration>,
    ) -> Result<ReleaseOutcome, Error> {
        let shared = grant.mode == Mode::Shared;
        if shared && self.dialect.part(grant).await? {
            self.sweep_sometimes().await;
            return Ok(ReleaseOutcome::Released);
        }
        // A reader cannot keep the lock: it would keep it as a writer.
        let keep = keep.filter(|_| !shared);
        match self.dialect.release(grant, keep).await? {
            Left::NotHeld => return Ok(ReleaseOutcome::NotHeld),
            Left::Free(version) if keep.is_none() => self.versions.note(&grant.name, version),
            Left::Free(_) | Left::Taken => {}
        }
        self.sweep_sometimes().await;
        Ok(ReleaseOutcome::Released)
    }

    /// Releases a grant, and carries the next request of this process.
    async fn hand_on(&self, grant: &Grant, next: &Request) -> Result<Option<Released>, Error> {
        if Mode::Shared == grant.mode || Mode::Shared == next.mode {
            return Ok(None);
        }
        // A wrong request must not stop the release. It gets its error when it asks on its own.
        let lease = check_lease(next.lease, self.guarantees().longest_lease);
        if self.check_token(next.floor).and(lease).is_err() {
            return Ok(None);
        }
        let Some(handed) = Arc::clone(&self.dialect).hand_on(grant, next).await? else {
            return Ok(None);
        };
        self.sweep_sometimes().await;
        let next = match handed {
            Handed::Granted(token) => Enqueued::Granted(Grant::new(next, token)),
            Handed::Queued(token, waiter) => {
                let busy = Busy::new(None, token, LONGEST_POLL);
                Enqueued::Waiting(waiter, busy)
            }
            #[cfg(feature = "postgres")]
            Handed::Passed => return Ok(Some(Released::plain(ReleaseOutcome::Released))),
        };
        Ok(Some(Released::new(ReleaseOutcome::Released, Some(next))))
    }

    /// The answer of an operation. If it failed because the tables have another version, the error
    /// says so. An unknown error that has lasted for a longest lease is final.
    async fn explained<T>(
        &self,
        operation: &'static str,
        answer: Result<T, Error>,
    ) -> Result<T, Error> {
        let answer = match answer {
            Err(error) if error.kind() == ErrorKind::Config => {
                match self.dialect.check_version().await {
                    Err(version) if version.kind() == ErrorKind::Config => Err(version),
                    _ => Err(error),
                }
            }
            // An earlier try may have been carried out. The caller must go on to find that out.
            Err(error) if error.is_ambiguous() => Err(error),
            Err(error) => {
                let (now, limit) = (SystemEnv.now(), self.guarantees().longest_lease);
                let unknown = |_: &UnknownRefusal| true;
                Err(self.unknown_errors.judge(operation, error, unknown, now, limit))
            }
            Ok(done) => {
                self.unknown_errors.forget(operation);
                Ok(done)
            }
        };
        answer.during::<D>(operation)
    }

    /// Counts releases and abandoned owners, and sweeps once in [`SWEEP_EVERY`].
    async fn sweep_sometimes(&self) {
        let count = self.releases.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_multiple_of(SWEEP_EVERY)
            && let Err(error) = self.dialect.sweep(self.strategy == Strategy::PrimaryKey).await
        {
            tracing::trace!(target: "leasehold", %error, "sweep failed; a later one will do its work");
        }
    }
}

/// The pause between two polls of a waiter with this many others before it. It grows with their
/// number, so that all waiters together hardly poll more often when there are more of them.
pub(crate) fn poll_behind<D: Dialect + ?Sized>(others: u32) -> Duration {
    (LONGEST_POLL * (1 + others / FAR)).min(D::FAR_POLL)
}

fn busy<D: Dialect>(dialect: &D, request: &Request, row: Option<Row>) -> Busy {
    let holder = row.as_ref().and_then(Row::holder);
    let left = row.as_ref().map_or(Duration::ZERO, |row| row.remaining.max(row.others_first));
    let before_us = row.as_ref().map_or(0, |row| row.before_us);
    let longest = dialect.poll(request.owner, before_us);
    // However short the lease is, a waiter far back is not the next one to be served.
    let left = if before_us >= FAR { longest } else { left };
    Busy::new(
        holder,
        row.map_or(FencingToken::ZERO, |row| row.token),
        left.clamp(Duration::from_millis(1), longest),
    )
}

/// Adds to an error which operation of which backend failed.
trait During<T> {
    fn during<D: Dialect>(self, operation: &'static str) -> Result<T, Error>;
}

impl<T> During<T> for Result<T, Error> {
    fn during<D: Dialect>(self, operation: &'static str) -> Self {
        self.map_err(|error| error.at(D::KIND, operation))
    }
}

#[async_trait]
impl<D: Dialect> Backend for SqlBackend<D> {
    fn kind(&self) -> &'static str {
        D::KIND
    }

    async fn identity(&self) -> Result<String, Error> {
        self.dialect.check_version().await.during::<D>("identity")?;
        let own = self.dialect.identity().await.during::<D>("identity")?;
        Ok(format!("{}:{own}", D::KIND))
    }

    fn was_busy(&self, name: &LockName) -> bool {
        self.dialect.was_busy(name)
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        self.dialect.guarantees()
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        self.explained("acquire", self.attempt(&Self::supported(request)).await).await
    }

    async fn enqueue(&self, request: &Request) -> Result<Enqueued, Error> {
        let request = &*Self::supported(request);
        // The waiter comes first: then the attempt enters the queue if it is refused.
        let waiter = Arc::clone(&self.dialect).waiter(request);
        match self.explained("enqueue", self.attempt(request).await).await {
            Ok(Attempt::Granted(grant)) => Ok(Enqueued::Granted(grant)),
            Ok(Attempt::Quarantined(quarantined)) => Ok(Enqueued::Quarantined(quarantined)),
            Ok(Attempt::Busy(busy)) => Ok(Enqueued::Waiting(waiter, busy)),
            Err(error) => {
                // The attempt certainly failed, so the next request has another owner, and an entry
                // of this one would only be in its way.
                if !error.is_ambiguous()
                    && let Err(error) = waiter.leave().await
                {
                    tracing::trace!(target: "leasehold", name = %request.name, %error, "a queue entry is left behind");
                }
                Err(error)
            }
        }
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let abandon = async {
            let _pass = gate::attempt(self.dialect.gate()).await?;
            self.dialect.abandon(request).await?;
            self.sweep_sometimes().await;
            Ok(())
        };
        self.explained("abandon", abandon.await).await
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let limit = self.dialect.timeout() + GRACE;
        let batch = timeout(limit, self.dialect.renew(grants)).await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Timeout, "the renewals got no answer in time"))
        });
        let leases = match self.explained("renew", batch).await {
            Ok(leases) => leases,
            Err(error) if error.kind() == ErrorKind::Lost => {
                tracing::warn!(target: "leasehold", %error);
                return grants.iter().map(|_| Renewal::Lost(LossReason::Gone)).collect();
            }
            Err(error) => return grants.iter().map(|_| Renewal::Unknown(error.clone())).collect(),
        };
        renewal::answers(&*self.dialect, grants, leases, sent).await
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        let _pass = gate::call(self.dialect.gate()).await.during::<D>("release")?;
        if let (None, Some(next)) = (options.keep, options.next)
            && let Some(released) =
                self.explained("release", self.hand_on(grant, next).await).await?
        {
            return Ok(released);
        }
        let outcome = self.give_back(grant, options.keep).await;
        self.explained("release", outcome).await.map(Released::plain)
    }

    async fn raise(&self, grant: &Grant, token: FencingToken) -> Result<(), Error> {
        self.check_token(token).during::<D>("raise")?;
        let _pass = gate::call(self.dialect.gate()).await.during::<D>("raise")?;
        if self.explained("raise", self.dialect.raise(grant, token).await).await? {
            return Ok(());
        }
        let message = "the grant whose token was to be raised is gone";
        Err(Error::new(ErrorKind::NotHeld, message).at(D::KIND, "raise").on(&grant.name))
    }

    async fn reown(&self, grant: &Grant, request: &Request) -> Result<Option<Grant>, Error> {
        let _pass = gate::call(self.dialect.gate()).await.during::<D>("reown")?;
        self.explained("reown", renewal::reown(&*self.dialect, grant, request).await).await
    }

    async fn read_record(&self, name: &LockName) -> Result<RecordRead, Error> {
        self.explained("read-record", self.dialect.read_record(name).await).await
    }

    async fn write_record(
        &self,
        grant: &Grant,
        write: &RecordWrite,
    ) -> Result<WriteOutcome, Error> {
        let _pass = gate::call(self.dialect.gate()).await.during::<D>("write-record")?;
        self.explained("write-record", self.dialect.write_record(grant, write).await).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        let row = self.explained("inspect", self.dialect.read_row(name, None).await).await?;
        Ok(row.map(Row::into_state))
    }

    async fn list(&self, from: Option<Cursor>) -> Result<Page, Error> {
        let after = from.unwrap_or_default();
        let rows = self.explained("list", self.dialect.list(&after, PAGE).await).await?;
        Ok(page(rows, PAGE as usize))
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        let _pass = gate::call(self.dialect.gate()).await.during::<D>("force-release")?;
        let freed = self.explained("force-release", self.dialect.force(name).await).await?;
        Ok(if freed { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld })
    }

    async fn quarantine(&self) -> Result<Option<Quarantined>, Error> {
        self.dialect.running_quarantine().await.during::<D>("check")
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        self.dialect.init(init).await.during::<D>("init")
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        let before = SystemEnv.wall_micros();
        let clock = self.dialect.clock_micros().await.during::<D>("check")?;
        let middle = before.midpoint(SystemEnv.wall_micros());
        Ok(clock.map(|clock| clock - middle.cast_signed()))
    }

    async fn highest_token(&self) -> Result<Option<FencingToken>, Error> {
        self.dialect.check_version().await.during::<D>("check")?;
        let highest = self.dialect.highest_token().await.during::<D>("check")?;
        let highest = FencingToken::new(u64::try_from(highest).unwrap_or(0));
        Ok(Some(highest.unwrap_or(FencingToken::MAX)))
    }

    async fn warnings(&self) -> Result<Vec<String>, Error> {
        self.dialect.warnings().await.during::<D>("check")
    }

    async fn close(&self) {
        self.dialect.close().await;
    }
}
