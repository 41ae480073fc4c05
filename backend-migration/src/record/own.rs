//! This process's own record: a lock with a reserved name in both stores, renewed like any other
//! lock.
//!
//! A process writes its record to both stores, then reads the records of the others, and only then
//! acts. If two processes enter the two end phases at once, at least one of them sees the other and
//! does not enter. In an end phase a process acquires and renews only while it may believe its
//! record in its own store (the store that it uses), and believes no lock for longer. So when a
//! record has ended, all locks under it have ended too. While the process believes a lock, its
//! record in the other store stays, even if the record in its own store is lost.

use std::{
    pin::pin,
    sync::{Arc, MutexGuard, Weak},
    time::Duration,
};

use futures_util::future::select;
use lock_core::{
    Backend, BoxFuture, ClientOptions, Env, Error, ErrorKind, FencingToken, Guard, Holder, Instant,
    LockClient, LockName, Mutex, NoRuntime, OncePer, OwnerLabel, jittered,
};
use tokio::runtime::Id;
use tokio_util::sync::CancellationToken;

use super::names::{UsedStores, digests, is_unknown_version, read_records};
use crate::{
    phase::Phase,
    refusal,
    tunables::{ENTER_LIMIT, LONGEST_REWRITE_PAUSE},
};

/// The record of this process. A task keeps it until this is dropped or closed.
#[derive(Debug)]
pub(crate) struct OwnRecord {
    phase: Phase,
    /// The old and the new store.
    stores: [Arc<dyn Backend>; 2],
    clients: [LockClient; 2],
    env: Arc<dyn Env>,
    state: Mutex<State>,
    keeper: Mutex<Keeper>,
    ended: CancellationToken,
    /// Limits the lines about a store that does not answer.
    failure_line: OncePer,
}

/// The task that keeps the record.
#[derive(Debug, Default)]
struct Keeper {
    /// The runtime on which the record goes on if that of the task ends: that of the last call.
    runtime: Option<Id>,
    /// Lives as long as the task.
    task: Weak<()>,
}

#[derive(Debug, Default)]
struct State {
    name: Option<LockName>,
    guards: [Option<Guard>; 2],
    /// Whether the records of the others were read after this record was written. Until then this
    /// record does not count.
    entered: bool,
    /// The floor of this phase's tokens: the token of the other store at a time when no process
    /// used only that store.
    floor: FencingToken,
    /// Until when locks that were granted or renewed under this record may be believed.
    believed: Instant,
}

impl Drop for OwnRecord {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl OwnRecord {
    /// Enters the phase, and starts the task that keeps the record.
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
        let record = Arc::new(Self {
            phase,
            stores,
            clients,
            env,
            state: Mutex::default(),
            keeper: Mutex::default(),
            ended: CancellationToken::new(),
            failure_line: OncePer::minute(),
        });
        record.enter().await?;
        record.keep_on_this_runtime().map_err(|error| {
            Error::new(ErrorKind::Config, "a migration needs a tokio runtime").with_source(error)
        })?;
        Ok(record)
    }

    /// Lets the record go on at the caller's runtime, if the runtime on which it is kept ends.
    /// Starts the task that keeps it, unless it runs.
    pub(crate) fn keep_on_this_runtime(self: &Arc<Self>) -> Result<(), NoRuntime> {
        let here = self.env.runtime().map(|runtime| runtime.id());
        let mut keeper = self.keeper.lock();
        let kept = keeper.task.strong_count() > 0;
        if (kept && keeper.runtime == here) || self.ended.is_cancelled() {
            return Ok(());
        }
        keeper.runtime = here;
        self.state().guards.iter().flatten().for_each(Guard::renew_on_this_runtime);
        if kept {
            return Ok(());
        }
        let task = Arc::new(());
        keeper.task = Arc::downgrade(&task);
        let keeping = keep(Arc::downgrade(self), self.ended.clone());
        self.env.spawn(Box::pin(async move {
            let _task = task;
            keeping.await;
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The side of the only store that this process uses; `None` in phase `Both`.
    fn own_side(&self) -> Option<usize> {
        match self.phase {
            Phase::Old => Some(0),
            Phase::Both => None,
            Phase::New => Some(1),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.env.now()
    }

    /// Until when the process may believe its record in the store that it uses, and the floor of
    /// its tokens.
    ///
    /// # Errors
    /// `Unavailable` while the record is lost.
    pub(crate) fn belief(&self) -> Result<(Instant, FencingToken), Error> {
        let now = self.env.now();
        let mut state = self.state();
        let own = self.own_side().filter(|_| state.entered);
        let guard = own.and_then(|own| state.guards[own].as_ref());
        match guard.map(Guard::remaining).filter(|left| !left.is_zero()) {
            Some(left) => {
                let until = now + left;
                state.believed = state.believed.max(until);
                Ok((until, state.floor))
            }
            None => {
                let message = format!(
                    "the record that this process is in phase {} was lost, and is not written again yet: \
                     until then this process neither acquires nor renews",
                    self.phase
                );
                Err(Error::new(ErrorKind::Unavailable, message).at("migration", "record"))
            }
        }
    }

    /// Logs what is tried again, once per minute.
    fn warn(&self, error: &Error, what: &str) {
        if self.failure_line.is_due(self.env.now()) {
            tracing::warn!(target: "leasehold", %error, "{what}");
        }
    }

    async fn enter(&self) -> Result<(), Error> {
        let [old, new] = &self.stores;
        let digests = digests([&**old, &**new]).await?;
        let uses = UsedStores::of(self.phase, &digests);
        let before = self.state().name.as_ref().and_then(UsedStores::parse);
        if before.is_some_and(|before| before != uses) {
            // A store lost its data and came back with another identity. What is left of the old
            // record names the old identity, and would keep out this process and all others that
            // used the store. No lock is believed under it any more.
            self.leave().await;
        }
        let name = uses.record_name(&*self.env)?;
        let Some(own) = self.own_side() else {
            // All processes of this migration are neighbours. This record only makes the process
            // visible, so a failed write is repeated later, and a failed read is tolerated. But
            // another migration may share one of the stores.
            self.state().name = Some(name);
            for side in 0..2 {
                if let Err(error) = self.write(side).await {
                    self.warn(&error, "the record of phase both is not written yet");
                }
            }
            return match self.distant(uses).await {
                Ok(Some((other, holder))) => {
                    self.leave().await;
                    Err(refusal::of_entry(self.phase, other.phase(&digests), &holder))
                }
                Ok(None) => Ok(()),
                // A later read would fail too.
                Err(error) if is_unknown_version(&error) => {
                    self.leave().await;
                    Err(error)
                }
                Err(error) => {
                    self.warn(&error, "the records of others cannot be read yet");
                    Ok(())
                }
            };
        };
        // Before the first write, since this record would keep other processes out.
        self.refuse_distant(uses, &digests).await?;
        *self.state() = State { name: Some(name), ..State::default() };
        let entered = async {
            self.write(1 - own).await?;
            self.write(own).await?;
            self.refuse_distant(uses, &digests).await?;
            // From now on no process uses only the other store, and none can start to. So if the
            // record is written there again, its token is above all tokens that were granted there.
            let early = self.state().guards[1 - own].take();
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

    /// Refuses the phase while another process is two phases away.
    async fn refuse_distant(&self, uses: UsedStores, digests: &[u64; 2]) -> Result<(), Error> {
        match self.distant(uses).await? {
            None => Ok(()),
            Some((other, holder)) => {
                Err(refusal::of_entry(self.phase, other.phase(digests), &holder))
            }
        }
    }

    /// The record of a process that is not a neighbour.
    async fn distant(&self, uses: UsedStores) -> Result<Option<(UsedStores, Holder)>, Error> {
        let [old, new] = &self.stores;
        let records = read_records([&**old, &**new]).await?;
        Ok(records.into_values().find(|(other, _)| !uses.is_neighbour(*other)))
    }

    async fn write(&self, side: usize) -> Result<(), Error> {
        let Some(name) = self.state().name.clone() else { return Ok(()) };
        let lease = self.stores[side].guarantees().longest_lease;
        let guard = self.clients[side].lock(name).lease(lease).wait(ENTER_LIMIT).acquire().await?;
        let old = {
            let mut state = self.state();
            // If `close` ran meanwhile, it did not see this guard, so it must be dropped here.
            if self.ended.is_cancelled() { Some(guard) } else { state.guards[side].replace(guard) }
        };
        drop(old);
        Ok(())
    }

    /// Makes all later tokens of the own store higher than the record's token in the other store.
    async fn raise_floor(&self, own: usize) -> Result<(), Error> {
        let grant =
            |side: usize| self.state().guards[side].as_ref().map(|guard| guard.grant().clone());
        let (Some(ours), Some(other)) = (grant(own), grant(1 - own)) else {
            let message = "the record was lost while it was written";
            return Err(Error::new(ErrorKind::Unavailable, message).at("migration", "enter"));
        };
        // The margin says how far the clocks of a store may be apart, if it has several.
        let floor = other.token.get().saturating_add(other.margin.as_micros() as u64);
        let floor = FencingToken::new(floor).unwrap_or(FencingToken::MAX);
        // Only the store can decide whether it accepts this floor: its tokens may be behind its
        // clock, and time has passed between the two writes.
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
        let mut state = self.state();
        (state.floor, state.entered) = (floor, true);
        Ok(())
    }

    /// Writes a lost record again.
    async fn rewrite(&self) -> Result<(), Error> {
        let Some(own) = self.own_side() else {
            for side in 0..2 {
                if !self.is_valid(side) {
                    self.write(side).await?;
                }
            }
            return Ok(());
        };
        if !self.is_valid(own) && self.believed_until().is_none() {
            // It may have been lost long ago, and other processes may have changed their phases
            // since.
            return self.enter().await;
        }
        if !self.is_valid(1 - own) {
            self.write(1 - own).await?;
        }
        Ok(())
    }

    /// Until when locks are believed; `None` if none is.
    fn believed_until(&self) -> Option<Instant> {
        let believed = self.state().believed;
        (self.env.now() < believed).then_some(believed)
    }

    fn is_valid(&self, side: usize) -> bool {
        self.state().guards[side].as_ref().is_some_and(Guard::is_valid)
    }

    /// Ends when the record must be written again.
    fn lost(&self) -> BoxFuture {
        let monitors =
            self.state().guards.each_ref().map(|guard| guard.as_ref().map(Guard::monitor));
        let [Some(old), Some(new)] = monitors else { return Box::pin(async {}) };
        let (own, other) = if self.own_side() == Some(1) { (new, old) } else { (old, new) };
        // If the record in the own store is lost, the process enters again only when it believes no
        // lock under it any more. Until then the record in the other store makes it visible.
        let pause = match (self.own_side(), self.believed_until()) {
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

    /// Releases the record, so that others need not wait for its lease to end.
    pub(crate) async fn leave(&self) {
        let guards = std::mem::take(&mut *self.state()).guards;
        for guard in guards.into_iter().flatten() {
            if let Err(error) = guard.release().await {
                tracing::trace!(target: "leasehold", %error, "a record could not be released, and ends with its lease");
            }
        }
    }

    pub(crate) async fn close(&self) {
        self.ended.cancel();
        self.leave().await;
    }
}

async fn keep(record: Weak<OwnRecord>, ended: CancellationToken) {
    loop {
        let Some((lost, env)) = record.upgrade().map(|this| (this.lost(), Arc::clone(&this.env)))
        else {
            return;
        };
        tokio::select! {
            () = ended.cancelled() => return,
            () = lost => {}
        }
        let rewriting = async {
            let Some(this) = record.upgrade() else { return };
            if let Err(error) = this.rewrite().await {
                let what = "the record of a migration's phase is lost and not written again yet";
                this.warn(&error, what);
                drop(this);
                env.sleep(jittered(&*env, LONGEST_REWRITE_PAUSE)).await;
            }
        };
        tokio::select! {
            () = ended.cancelled() => return,
            () = rewriting => {}
        }
    }
}
