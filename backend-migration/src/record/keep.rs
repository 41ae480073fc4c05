//! Keeps the record of this process's phase: a lock under a reserved name in both stores, kept like any
//! other lock.
//!
//! A process writes its record to both stores, then reads the records of the others, then acts. Of two
//! that enter the two end phases at once, at least one sees the other and does not enter. In an end
//! phase a process acquires and renews only while it may believe its record in its own store, and
//! believes no lock for longer: so when a record has ended, all locks under it have. While it believes
//! any, its record in the other store stays, also if the one in its own is lost.

use std::{
    pin::pin,
    sync::{Arc, MutexGuard, Weak},
    time::Duration,
};

use futures_util::future::select;
use lock_core::{
    Backend, BoxFuture, ClientOptions, Env, Error, ErrorKind, FencingToken, Guard, Holder, Instant,
    LockClient, LockName, Mutex, OwnerLabel, jittered,
};
use tokio_util::sync::CancellationToken;

use super::uses::{Use, digests, is_unknown, records};
use crate::{
    phase::Phase,
    refusal,
    tunables::{ENTER_LIMIT, LONGEST_REWRITE_PAUSE},
};

/// A record, and what keeps it.
#[derive(Debug)]
pub(crate) struct Record {
    phase: Phase,
    /// The old and the new store.
    stores: [Arc<dyn Backend>; 2],
    clients: [LockClient; 2],
    env: Arc<dyn Env>,
    kept: Mutex<Kept>,
    ended: CancellationToken,
}

#[derive(Debug, Default)]
struct Kept {
    name: Option<LockName>,
    guards: [Option<Guard>; 2],
    /// Whether the records of the others were read after this one was written. A record that was
    /// written anew says nothing before.
    entered: bool,
    /// The other store's clock, when nobody used that store alone any more.
    floor: FencingToken,
    /// Until when a lock may be believed that was granted or renewed under this record.
    believed: Instant,
}

impl Drop for Record {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl Record {
    /// Enters the phase, and keeps the record until it is dropped or left.
    pub(crate) async fn open(
        stores: [Arc<dyn Backend>; 2],
        phase: Phase,
        label: OwnerLabel,
        env: Arc<dyn Env>,
    ) -> Result<Arc<Self>, Error> {
        let client = |store: &Arc<dyn Backend>| {
            let options = ClientOptions::new().with_label(label.clone());
            LockClient::with_env(Arc::clone(store), Arc::clone(&env), options)
        };
        let clients = [client(&stores[0])?, client(&stores[1])?];
        let (kept, ended) = (Mutex::default(), CancellationToken::new());
        let record = Arc::new(Self { phase, stores, clients, env, kept, ended });
        record.enter().await?;
        let keeping = keep(Arc::downgrade(&record), record.ended.clone());
        record.env.spawn(Box::pin(keeping)).map_err(|error| {
            Error::new(ErrorKind::Config, "a migration needs a tokio runtime").with_source(error)
        })?;
        Ok(record)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }

    /// The store that alone is used.
    fn own(&self) -> Option<usize> {
        match self.phase {
            Phase::Old => Some(0),
            Phase::Both => None,
            Phase::New => Some(1),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.env.now()
    }

    /// Until when the process may believe its record in the store that it uses, and the floor of its
    /// tokens.
    ///
    /// # Errors
    /// `Unavailable` while the record is lost.
    pub(crate) fn standing(&self) -> Result<(Instant, FencingToken), Error> {
        let now = self.env.now();
        let mut kept = self.kept();
        let own = self.own().filter(|_| kept.entered);
        let guard = own.and_then(|own| kept.guards[own].as_ref());
        match guard.map(Guard::remaining).filter(|left| !left.is_zero()) {
            Some(left) => {
                let until = now + left;
                kept.believed = kept.believed.max(until);
                Ok((until, kept.floor))
            }
            None => {
                let message = format!(
                    "the record that this process is in phase {} was lost, and is not yet written \
                     anew: until then it neither acquires nor renews",
                    self.phase
                );
                Err(Error::new(ErrorKind::Unavailable, message).at("migration", "record"))
            }
        }
    }

    async fn enter(&self) -> Result<(), Error> {
        let [old, new] = &self.stores;
        let digests = digests([&**old, &**new]).await?;
        let uses = Use::of(self.phase, &digests);
        let before = self.kept().name.as_ref().and_then(Use::read);
        if before.is_some_and(|before| before != uses) {
            // A store lost its data and came back as another. What is left of the record names the one
            // before, and would turn away this process and all that were there with it. Nothing is
            // believed under it any more.
            self.leave().await;
        }
        let name = uses.record(&*self.env)?;
        let Some(own) = self.own() else {
            // All of this migration are its neighbours: it is only to be seen, and what cannot be
            // written or read now is later. Another migration may share one of the stores.
            self.kept().name = Some(name);
            for side in 0..2 {
                if let Err(error) = self.write(side).await {
                    tracing::warn!(%error, "the record of phase both is not written yet");
                }
            }
            return match self.far(uses).await {
                Ok(Some((other, holder))) => {
                    self.leave().await;
                    Err(refusal::of_entry(self.phase, other.phase(&digests), &holder))
                }
                Ok(None) => Ok(()),
                // It will not be read later, either.
                Err(error) if is_unknown(&error) => {
                    self.leave().await;
                    Err(error)
                }
                Err(error) => {
                    tracing::warn!(%error, "the records of others cannot be read yet");
                    Ok(())
                }
            };
        };
        // Before anything is written: a record of ours would turn others away.
        self.alone(uses, &digests).await?;
        *self.kept() = Kept { name: Some(name), ..Kept::default() };
        let entered = async {
            self.write(1 - own).await?;
            self.write(own).await?;
            self.alone(uses, &digests).await?;
            // Only now nobody uses the other store alone, and nobody can begin to. Written again, the
            // record has a token above all that were granted there.
            let early = self.kept().guards[1 - own].take();
            if let Some(early) = early {
                early.release().await?;
            }
            self.write(1 - own).await?;
            self.raise_floor(own).await
        };
        let entered = entered.await;
        if entered.is_err() {
            self.leave().await;
        }
        entered
    }

    /// Refuses a phase while another process is two phases away.
    async fn alone(&self, uses: Use, digests: &[u64; 2]) -> Result<(), Error> {
        match self.far(uses).await? {
            None => Ok(()),
            Some((other, holder)) => {
                Err(refusal::of_entry(self.phase, other.phase(digests), &holder))
            }
        }
    }

    /// A process that is no neighbour.
    async fn far(&self, uses: Use) -> Result<Option<(Use, Holder)>, Error> {
        let [old, new] = &self.stores;
        let records = records([&**old, &**new]).await?;
        Ok(records.into_values().find(|(other, _)| !uses.is_neighbour(*other)))
    }

    async fn write(&self, side: usize) -> Result<(), Error> {
        let Some(name) = self.kept().name.clone() else { return Ok(()) };
        let lease = self.stores[side].guarantees().longest_lease;
        let guard = self.clients[side].lock(name).lease(lease).wait(ENTER_LIMIT).acquire().await?;
        let old = {
            let mut kept = self.kept();
            // `close` has given up all that it found, and nobody would give up this one.
            if self.ended.is_cancelled() { Some(guard) } else { kept.guards[side].replace(guard) }
        };
        drop(old);
        Ok(())
    }

    /// From now on tokens of the own store are to be above the record's in the other.
    async fn raise_floor(&self, own: usize) -> Result<(), Error> {
        let grant =
            |side: usize| self.kept().guards[side].as_ref().map(|guard| guard.grant().clone());
        let (Some(ours), Some(other)) = (grant(own), grant(1 - own)) else {
            let message = "the record was lost while it was written";
            return Err(Error::new(ErrorKind::Unavailable, message).at("migration", "enter"));
        };
        // A store of several clocks says in the margin how far they may be apart.
        let floor = other.token.get().saturating_add(other.margin.as_micros() as u64);
        let floor = FencingToken::new(floor).unwrap_or(FencingToken::MAX);
        // Only the store can say whether it takes such a floor: its tokens may be behind its clock, and
        // time has passed between the two.
        if let Err(error) = self.stores[own].raise(&ours, floor).await {
            if error.kind() != ErrorKind::InvalidInput {
                return Err(error);
            }
            let behind = Duration::from_micros(floor.get().saturating_sub(ours.token.get()));
            let show = humantime::format_duration;
            let message = format!(
                "the clock of the {} store is {} behind that of the other store; the difference must be less \
                 than the longest lease, {}",
                self.stores[own].kind(),
                show(behind),
                show(self.stores[own].guarantees().longest_lease)
            );
            let refused = Error::new(ErrorKind::Config, message).with_source(error);
            return Err(refused.at("migration", "enter"));
        }
        let mut kept = self.kept();
        (kept.floor, kept.entered) = (floor, true);
        Ok(())
    }

    /// Writes a lost record anew.
    async fn mend(&self) -> Result<(), Error> {
        let Some(own) = self.own() else {
            for side in 0..2 {
                if !self.is_valid(side) {
                    self.write(side).await?;
                }
            }
            return Ok(());
        };
        if !self.is_valid(own) && self.believes().is_none() {
            // It may have been lost for long: others may have gone on meanwhile.
            return self.enter().await;
        }
        if !self.is_valid(1 - own) {
            self.write(1 - own).await?;
        }
        Ok(())
    }

    /// Until when a lock is believed, if any is.
    fn believes(&self) -> Option<Instant> {
        let believed = self.kept().believed;
        (self.env.now() < believed).then_some(believed)
    }

    fn is_valid(&self, side: usize) -> bool {
        self.kept().guards[side].as_ref().is_some_and(Guard::is_valid)
    }

    /// Ends when something is to be written anew.
    fn lost(&self) -> BoxFuture {
        let monitors =
            self.kept().guards.each_ref().map(|guard| guard.as_ref().map(Guard::monitor));
        let [Some(old), Some(new)] = monitors else { return Box::pin(async {}) };
        let (own, other) = if self.own() == Some(1) { (new, old) } else { (old, new) };
        // The own record is entered anew when nothing is believed under the lost one any more. Until
        // then that in the other store shows this process.
        let pause = match (self.own(), self.believes()) {
            (Some(_), Some(until)) => Some(self.env.sleep_until(until)),
            _ => None,
        };
        Box::pin(async move {
            let own = async {
                own.lost().await;
                if let Some(pause) = pause {
                    pause.await;
                }
            };
            select(pin!(own), pin!(other.lost())).await;
        })
    }

    /// Ends the record, so that others need not wait for its lease.
    pub(crate) async fn leave(&self) {
        let guards = std::mem::take(&mut *self.kept()).guards;
        for guard in guards.into_iter().flatten() {
            if let Err(error) = guard.release().await {
                tracing::debug!(%error, "a record is left to its lease");
            }
        }
    }

    pub(crate) async fn close(&self) {
        self.ended.cancel();
        self.leave().await;
    }
}

async fn keep(record: Weak<Record>, ended: CancellationToken) {
    loop {
        let Some((lost, env)) = record.upgrade().map(|this| (this.lost(), Arc::clone(&this.env)))
        else {
            return;
        };
        tokio::select! {
            () = ended.cancelled() => return,
            () = lost => {}
        }
        let mending = async {
            let Some(this) = record.upgrade() else { return };
            if let Err(error) = this.mend().await {
                tracing::warn!(%error, "the record of a migration's phase is lost and not yet written anew");
                drop(this);
                env.sleep(jittered(&*env, LONGEST_REWRITE_PAUSE)).await;
            }
        };
        tokio::select! {
            () = ended.cancelled() => return,
            () = mending => {}
        }
    }
}
