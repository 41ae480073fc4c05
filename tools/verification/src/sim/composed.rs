//! The operations of simulated processes on several locks: all, any, permits, re-entry, elections.

use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use lock_core::{ErrorKind, LockName, Monitor, OwnerId, all, any};

use super::{
    env::SimEnv,
    load::{OnItsClock as _, Worker, ms},
    plan::Mutant,
};
use conformance_tests::history::{Acquisition, What};

/// How many permits the semaphore has.
const PERMITS: u32 = 2;

impl Worker {
    /// Makes one operation on several locks.
    pub(super) async fn compose(&self) {
        let wait = self.world.chance(500).then(|| ms(1 + self.world.roll(3_000)));
        match self.world.roll(5) {
            0 => self.all(wait).await,
            1 => self.any(wait).await,
            2 => self.lead().await,
            3 => self.enter_again().await,
            _ => self.permit(wait).await,
        }
    }

    fn lease(&self) -> Duration {
        [ms(200), ms(1_000), ms(10_000)][self.world.roll(3) as usize]
    }

    /// Acquires all plain locks of the run, in a random order.
    async fn all(&self, wait: Option<Duration>) {
        let lease = self.lease();
        let mut names = self.names.clone();
        if self.world.chance(500) {
            names.reverse();
        }
        let ops: Vec<_> = names.iter().map(|name| self.recorder.ask(name)).collect();
        let mut locks = all(names.iter().map(|name| self.client.lock(name).lease(lease)));
        if let Some(wait) = wait {
            locks = locks.wait(wait);
        }
        let Some((first, rest)) = ops.split_first() else { return };
        let acquire = async {
            match locks.acquire().await {
                // It lost one lock while it waited for another, or `Busy` names the token of any of
                // them.
                Err(error) if error.is_lost() || error.is_busy() => Ok(None),
                answer => answer.map(Some),
            }
        };
        let Some(guards) = self.waited(first, wait, acquire).await else {
            rest.iter().for_each(Acquisition::cancelled);
            return;
        };
        let Some(guards) = guards else {
            ops.iter().for_each(Acquisition::cancelled);
            return;
        };
        for (op, guard) in ops.iter().zip(guards.iter()) {
            op.acquired_by(&self.env, guard);
        }
        if self.world.chance(500) {
            let held = ops.into_iter().zip(guards.into_vec());
            join_all(held.map(|(op, guard)| self.hold(op, guard))).await;
            return;
        }
        let nap = self.world.sleep(self.world.span(ms(0), ms(1_500)));
        if let Either::Left(((lost, why), _)) = select(std::pin::pin!(guards.lost()), nap).await {
            self.is_lost(&ops[lost], &guards[lost], why);
            ops[lost].lost(why);
            if guards.is_valid() || guards[lost].is_valid() {
                self.net.find(format!("{}: a lost lock of all is valid", ops[lost].op()));
            }
        }
        ops.iter().for_each(Acquisition::given_up);
        let _ = guards.release().await;
    }

    async fn any(&self, wait: Option<Duration>) {
        let lease = self.lease();
        let op = self.recorder.ask(&self.names[0]);
        let mut locks = any(self.names.iter().map(|name| self.client.lock(name).lease(lease)));
        if let Some(wait) = wait {
            locks = locks.wait(wait);
        }
        let acquire = async {
            match locks.acquire().await {
                // `Busy` names the token of any of them.
                Err(error) if error.is_busy() => Ok(None),
                answer => answer.map(Some),
            }
        };
        match self.waited(&op, wait, acquire).await {
            Some(Some(guard)) => {
                op.acquired_by(&self.env, &guard);
                self.hold(op, guard).await;
            }
            Some(None) => op.cancelled(),
            None => {}
        }
    }

    async fn permit(&self, wait: Option<Duration>) {
        let Ok(name) = LockName::new("pool") else { return };
        let op = self.recorder.ask_permit(&name, PERMITS);
        let slots = PERMITS + u32::from(self.net.is(Mutant::OneSlotMore));
        let mut semaphore = self.client.semaphore(name, slots).lease(self.lease());
        if self.world.chance(200) {
            let tried = self.give_up_on(semaphore.try_acquire()).await;
            match &tried {
                Some(answer) => op.tried_by(&self.env, answer),
                None => op.cancelled(),
            }
            if let Some(guard) = tried.and_then(Result::ok).and_then(|tried| tried.guard()) {
                self.hold(op, guard).await;
            }
            return;
        }
        if let Some(wait) = wait {
            semaphore = semaphore.wait(wait);
        }
        if let Some(permit) = self.waited(&op, wait, semaphore.acquire()).await {
            op.acquired_by(&self.env, &permit);
            self.hold(op, permit).await;
        }
    }

    /// A hold with two guards: the release of the first must not end it.
    async fn enter_again(&self) {
        let name = &self.names[0];
        let op = self.recorder.ask(name);
        let lock = self.client.lock(name).lease(self.lease());
        let Some(first) = self.waited(&op, None, lock.acquire()).await else { return };
        op.acquired_by(&self.env, &first);
        let Ok(second) = first.reenter() else {
            if first.is_valid() {
                self.net.find(format!("{}: `reenter` of a valid lock failed", op.op()));
            }
            op.given_up();
            return;
        };
        self.nap(0, 300).await;
        // The history has only the second guard: if the hold ended here, another process would get
        // in.
        if self.world.chance(500) {
            drop(first);
        } else {
            let answer = first.release().await;
            if answer.is_err_and(|error| error.kind() != ErrorKind::Lost) {
                self.net.find(format!(
                    "{}: the release of the first guard of two sent a request to the store",
                    op.op()
                ));
            }
        }
        self.hold(op, second).await;
    }

    /// Leads once for a while. The work is dropped when the leadership ends.
    async fn lead(&self) {
        let Ok(name) = LockName::new("chief") else { return };
        let election = self.client.election(&name).lease(self.lease());
        let work = |leadership: Monitor| {
            let op = self.recorder.ask(&name);
            let term = Term { op, leadership, env: self.env.clone() };
            let owner = OwnerId::from_bits(term.leadership.token().get().into());
            term.op.acquired_until(&name, owner, term.leadership.token(), term.until());
            async move {
                for _ in 0..self.world.roll(6) {
                    self.nap(0, 400).await;
                    if !term.leadership.is_valid() {
                        let op = term.op.op();
                        self.net.find(format!(
                            "{op}: the work continued after the leadership had ended"
                        ));
                    }
                    term.op.record(What::Looked { until: term.until() });
                }
            }
        };
        if let Some(Err(error)) = self.give_up_on(election.run(work)).await {
            self.expected(&error);
        }
    }
}

/// Records the end of a leadership when its work ends or is dropped.
struct Term {
    op: Acquisition,
    leadership: Monitor,
    env: SimEnv,
}

impl Term {
    fn until(&self) -> Option<lock_core::Instant> {
        let left = self.leadership.remaining();
        (!left.is_zero()).then(|| self.op.now() + self.env.in_world(left))
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.op.given_up();
    }
}
