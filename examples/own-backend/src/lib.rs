//! A store for leasehold in one short file: a map in this process's memory.
//!
//! Each method is one atomic step, because it locks the whole map. Waiters poll, which is the
//! default.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::backend::*;

/// How long a tombstone stays. A step ends at once, so no request is that late.
const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);
/// How soon a waiter polls again.
const POLL: Duration = Duration::from_millis(5);
const LONGEST_LEASE: Duration = StoreSettings::DEFAULT_LONGEST_LEASE;

/// Locks in a map. Clones are connections to the same map.
#[derive(Clone, Debug, Default)]
pub struct MapStore(Arc<Mutex<Records>>);

#[derive(Debug, Default)]
struct Records {
    held: HashMap<LockName, Record>,
    abandoned: HashMap<OwnerId, Instant>,
    /// At least the last token of every name that is not held.
    watermark: FencingToken,
}

#[derive(Debug)]
struct Record {
    owner: OwnerId,
    label: OwnerLabel,
    token: FencingToken,
    until: Instant,
    /// Released, and kept for its minimum hold.
    kept: bool,
}

impl Records {
    fn free(&mut self, name: &LockName) -> ReleaseOutcome {
        let Some(record) = self.held.remove(name) else { return ReleaseOutcome::NotHeld };
        self.watermark = self.watermark.max(record.token);
        ReleaseOutcome::Released
    }

    /// The record of this owner, unless it has released the lock.
    fn of(&mut self, name: &LockName, owner: OwnerId) -> Option<&mut Record> {
        self.held.get_mut(name).filter(|record| record.owner == owner && !record.kept)
    }

    fn state(&self, name: &LockName, now: Instant) -> Option<LockState> {
        let Record { owner, label, token, until, kept } = self.held.get(name)?;
        let holder = Holder::new(*owner, label.clone(), until.since(now));
        Some(LockState::new(name.clone(), Some(holder), *token).with_kept(*kept))
    }
}

impl MapStore {
    /// Locks the map for one step, removes expired records, and returns the map and the time of the
    /// step.
    fn step(&self) -> (MutexGuard<'_, Records>, Instant) {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemEnv.now();
        let ended = records.held.iter().filter(|(_, record)| record.until <= now);
        for name in ended.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            records.free(&name);
        }
        records.abandoned.retain(|_, until| now < *until);
        (records, now)
    }
}

#[async_trait]
impl Backend for MapStore {
    fn kind(&self) -> &'static str {
        "map"
    }

    fn guarantees(&self) -> Arc<Guarantees> {
        let mut promised = Guarantees::new(Duration::from_millis(10), LONGEST_LEASE);
        promised.exclusion = Promise::Holds { assuming: Vec::new() };
        promised.tokens = Promise::Holds { assuming: Vec::new() };
        promised.longest_poll = POLL;
        promised.token_lead = LONGEST_LEASE;
        promised.connection = ConnectionSecurity::Local;
        Arc::new(promised)
    }

    async fn try_acquire(&self, request: &Request) -> Result<Attempt, Error> {
        let clock = SystemEnv.wall_micros();
        check_lease(request.lease, LONGEST_LEASE)?;
        check_token(request.floor, clock, LONGEST_LEASE)?;
        let (mut records, now) = self.step();
        let until = now + request.lease;
        if let Some(record) = records.of(&request.name, request.owner) {
            record.until = record.until.max(until);
            return Ok(Attempt::Granted(Grant::new(request, record.token)));
        }
        if let Some(LockState { holder, token, .. }) = records.state(&request.name, now) {
            return Ok(Attempt::Busy(Busy::new(holder, token, POLL)));
        }
        if records.abandoned.contains_key(&request.owner) {
            return Ok(Attempt::Busy(Busy::new(None, records.watermark, POLL)));
        }
        let token = FencingToken::mint(clock, records.watermark, request.floor)
            .ok_or_else(|| Error::new(ErrorKind::Config, "the fencing tokens are used up"))?;
        let (owner, label) = (request.owner, request.label.clone());
        let record = Record { owner, label, token, until, kept: false };
        records.held.insert(request.name.clone(), record);
        Ok(Attempt::Granted(Grant::new(request, token)))
    }

    async fn abandon(&self, request: &Request) -> Result<(), Error> {
        let (mut records, now) = self.step();
        records.abandoned.insert(request.owner, now + TOMBSTONE_LIFE);
        if records.of(&request.name, request.owner).is_some() {
            records.free(&request.name);
        }
        Ok(())
    }

    async fn renew(&self, grants: &[&Grant], sent: Instant) -> Vec<Renewal> {
        let (mut records, now) = self.step();
        let answers = grants.iter().map(|grant| {
            if let Some(record) = records.of(&grant.name, grant.owner) {
                record.until = record.until.max(now + grant.lease);
                return Renewal::Renewed { from: sent, lease: grant.lease };
            }
            let taken = records.held.contains_key(&grant.name);
            Renewal::Lost(if taken { LossReason::TakenOver } else { LossReason::Gone })
        });
        answers.collect()
    }

    async fn release(&self, grant: &Grant, options: ReleaseOptions<'_>) -> Result<Released, Error> {
        let (mut records, now) = self.step();
        let outcome = match (records.of(&grant.name, grant.owner), options.keep) {
            (None, _) => ReleaseOutcome::NotHeld,
            (Some(record), Some(keep)) => {
                (record.until, record.kept) = (now + keep, true);
                ReleaseOutcome::Released
            }
            (Some(_), None) => records.free(&grant.name),
        };
        Ok(Released::plain(outcome))
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        let (records, now) = self.step();
        Ok(records.state(name, now))
    }

    async fn list(&self, _: Option<Cursor>) -> Result<Page, Error> {
        let (records, now) = self.step();
        let states = records.held.keys().filter_map(|name| records.state(name, now));
        Ok(Page::new(states.collect(), None))
    }

    async fn force_release(&self, name: &LockName) -> Result<ReleaseOutcome, Error> {
        Ok(self.step().0.free(name))
    }

    async fn init(&self, init: &Init) -> Result<StoreSettings, Error> {
        init.refuse_restored("it lives in this process")?;
        init.refuse_reset_tokens()?;
        init.refuse_records_complete()?;
        if init.longest_lease.is_some_and(|longest| longest != LONGEST_LEASE) {
            let message = format!("the longest lease must be {LONGEST_LEASE:?} in this store");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(StoreSettings::new(LONGEST_LEASE, None))
    }

    async fn clock_difference_micros(&self) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    async fn close(&self) {}
}
