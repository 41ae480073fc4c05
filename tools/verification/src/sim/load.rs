//! The work of the simulated processes: they acquire, hold, use and release locks.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::{Either, FutureExt as _, select};
use lock_core::{
    Backend as _, Error, ErrorKind, Fence, Guard, LockClient, LockName, LossReason, Mode, Mutex,
    TryAcquire,
};

use tokio_util::sync::CancellationToken;

use super::{
    env::SimEnv,
    net::{Net, at_once},
    world::{Process, World},
};
use conformance_tests::history::{Acquisition, Recorder, What};

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The fenced register of each name.
#[derive(Debug, Default)]
pub struct Register {
    fence: Fence,
    /// The value, and the number of writes so far.
    value: Mutex<(u64, u64)>,
}

/// One task of one process.
pub struct Worker {
    pub(super) net: Arc<Net>,
    pub(super) world: World,
    pub(super) process: Process,
    pub(super) env: SimEnv,
    pub(super) client: LockClient,
    pub(super) recorder: Recorder,
    pub(super) names: Vec<LockName>,
    pub(super) registers: Registers,
}

/// The registers of all names.
pub(super) type Registers = Arc<BTreeMap<LockName, Register>>;

impl Worker {
    /// Acquires and holds, again and again.
    pub async fn run(self) {
        for _ in 0..self.net.plan.rounds {
            self.nap(0, 200).await;
            if self.world.chance(self.net.plan.composed) {
                self.compose().await;
                continue;
            }
            let which = self.world.roll(self.names.len() as u64) as usize;
            let reads = self.world.chance(self.net.plan.readers);
            let name = &self.names[which];
            let op = if reads { self.recorder.ask_shared(name) } else { self.recorder.ask(name) };
            self.asking(&op, which);
            if let Some(guard) = self.ask(&op, which, reads).await {
                self.hold(op, guard).await;
            }
        }
    }

    /// Tells the network which acquisition a new queue entry is for, in runs that are checked for
    /// fairness.
    fn asking(&self, op: &Acquisition, which: usize) {
        if self.net.plan.calm {
            let key = (self.process, self.names[which].clone());
            self.net.state().asking.insert(key, op.clone());
        }
    }

    pub(super) async fn nap(&self, least: u64, most: u64) {
        self.world.sleep(self.world.span(ms(least), ms(most))).await;
    }

    async fn ask(&self, op: &Acquisition, which: usize, reads: bool) -> Option<Guard> {
        let world = &self.world;
        let lease = [ms(200), ms(1_000), ms(10_000)][world.roll(3) as usize];
        let mut wait = None;
        let mut lock = self.client.lock(self.names[which].clone()).lease(lease);
        if reads {
            lock = lock.shared();
        }
        if !self.net.plan.calm {
            if world.chance(100) && !reads {
                lock = lock.at_least(ms(world.roll(500)));
            }
            if world.chance(100) {
                lock = lock.hold_at_most(ms(500 + world.roll(1_000)));
            }
            if world.chance(250) {
                let tried = self.give_up_on(lock.try_acquire()).await;
                match &tried {
                    Some(answer) => op.tried_by(&self.env, answer),
                    None => op.cancelled(),
                }
                return tried.and_then(Result::ok).and_then(TryAcquire::guard);
            }
            if world.chance(400) {
                let span = ms(1 + world.roll(3_000));
                lock = lock.wait(span);
                wait = Some(span);
            }
        }
        let guard = self.waited(op, wait, lock.acquire()).await?;
        op.acquired_by(&self.env, &guard);
        Some(guard)
    }

    /// Runs an acquire, records a failure, and checks that it does not exceed its wait.
    pub(super) async fn waited<T>(
        &self,
        op: &Acquisition,
        wait: Option<Duration>,
        acquire: impl Future<Output = Result<T, Error>>,
    ) -> Option<T> {
        let world = &self.world;
        let (began, stopped) = (world.now(), world.stopped(self.process));
        let answer = self.give_up_on(acquire).await;
        if let Some(wait) = wait {
            let stops = Duration::from_nanos(world.stopped(self.process) - stopped);
            let took = Duration::from_nanos(world.now() - began);
            if took > self.env.in_world(wait) + stops + ms(20) {
                self.net.find(format!("{}: a wait of {wait:?} took {took:?}", op.op()));
            }
        }
        match answer {
            Some(Ok(acquired)) => {
                if self.net.state().closed.contains(&self.process) {
                    self.net.find(format!("{}: a closed client gave a guard", op.op()));
                }
                Some(acquired)
            }
            Some(Err(error)) => {
                op.failed(&error);
                self.expected(&error);
                None
            }
            None => {
                op.cancelled();
                None
            }
        }
    }

    /// Runs an acquire, but sometimes drops it after some polls or after some time.
    pub(super) async fn give_up_on<F: Future>(&self, future: F) -> Option<F::Output> {
        if !self.world.chance(self.net.plan.cancelled) {
            return Some(future.await);
        }
        let polls = if self.world.chance(500) { self.world.roll(6) as u32 } else { u32::MAX };
        let patience = self.world.sleep(self.world.span(ms(0), ms(2_000)));
        let few = FewPolls { future: Box::pin(future), polls };
        match select(std::pin::pin!(few), patience).await {
            Either::Left((output, _)) => output,
            Either::Right(_) => None,
        }
    }

    /// Reports an error that the faults of this plan cannot explain.
    pub(super) fn expected(&self, error: &Error) {
        let kind = error.kind();
        let permanent = matches!(kind, ErrorKind::Auth | ErrorKind::Config);
        let explained =
            matches!(kind, ErrorKind::Timeout | ErrorKind::Unavailable | ErrorKind::OutcomeUnknown)
                || (permanent && (self.net.plan.permanent > 0 || self.net.plan.closes));
        if !explained || self.net.plan.calm {
            self.net.find(format!("an acquire failed without a reason: {error}"));
        }
    }

    pub(super) async fn hold(&self, op: Acquisition, guard: Guard) {
        let world = &self.world;
        let cancelled = guard.cancellation_token();
        for _ in 0..world.roll(4) {
            let nap = ms(world.roll(300));
            if world.chance(500) {
                world.sleep(nap).await;
                self.peek(&op, &guard);
            } else if self.lost_within(&op, &guard, nap).await {
                break;
            }
            self.look(&op, &guard, &cancelled);
            if guard.mode() == Mode::Exclusive && world.chance(600) {
                self.update(&op, &guard).await;
            }
        }
        if world.chance(50) && !self.net.plan.calm {
            // A long job.
            self.lost_within(&op, &guard, ms(4_000)).await;
        }
        let until = self.look(&op, &guard, &cancelled);
        op.given_up();
        if world.chance(300) {
            drop(guard);
        } else if let Some(answer) = self.give_up_on(guard.release()).await {
            op.released(&answer);
            if answer.is_ok() && cancelled.is_cancelled() {
                self.net.find(format!("{}: the guard reported its own release as a loss", op.op()));
            }
            let forced = self.net.plan.disasters > 0;
            let in_time = until.is_some_and(|until| self.recorder.now() < until);
            if in_time && answer.is_err_and(|error| error.kind() == ErrorKind::NotHeld) && !forced {
                self.net.find(format!("{}: the release of a valid lock answered NotHeld", op.op()));
            }
        }
    }

    /// Waits for a loss for at most `span`; returns whether there was one.
    pub(super) async fn lost_within(
        &self,
        op: &Acquisition,
        guard: &Guard,
        span: Duration,
    ) -> bool {
        let wait = self.world.sleep(span);
        match select(std::pin::pin!(guard.lost()), wait).await {
            Either::Left((reason, _)) => {
                self.is_lost(op, guard, reason);
                op.lost(reason);
                true
            }
            Either::Right(_) => false,
        }
    }

    /// Checks that the store no longer has a lock that was reported as gone. A missing answer is no
    /// proof of a loss (S6).
    pub(super) fn is_lost(&self, op: &Acquisition, guard: &Guard, reason: LossReason) {
        if !matches!(reason, LossReason::Gone | LossReason::TakenOver) {
            return;
        }
        let state = at_once(self.net.memory.inspect(guard.name()));
        let theirs = state.ok().flatten().is_some_and(|state| {
            let owner = state.holder.map(|holder| holder.owner);
            owner == Some(guard.owner()) && state.token == guard.token()
        });
        if theirs {
            self.net
                .find(format!("{}: the guard reported {reason:?}, and the store has it", op.op()));
        }
    }

    /// Calls only `remaining()`, which does not make the guard report a loss.
    fn peek(&self, op: &Acquisition, guard: &Guard) {
        let left = guard.remaining();
        let until = (!left.is_zero()).then(|| self.recorder.now() + self.env.in_world(left));
        op.record(What::Looked { until });
    }

    fn look(
        &self,
        op: &Acquisition,
        guard: &Guard,
        cancelled: &CancellationToken,
    ) -> Option<lock_core::Instant> {
        let until = self.until(guard);
        op.record(What::Looked { until });
        let told = guard.lost().now_or_never();
        if let Some(reason) = told {
            self.is_lost(op, guard, reason);
            op.lost(reason);
        }
        if until.is_none() && !(told.is_some() && cancelled.is_cancelled()) {
            self.net.find(format!("{}: an invalid guard did not report its loss", op.op()));
        }
        if until.is_none() && self.net.plan.calm {
            self.net.find(format!("{}: a lock was lost without a fault", op.op()));
        }
        until
    }

    fn until(&self, guard: &Guard) -> Option<lock_core::Instant> {
        guard.is_valid().then(|| self.recorder.now() + self.env.in_world(guard.remaining()))
    }

    /// Reads and then writes the register, each time with the guard's token.
    async fn update(&self, op: &Acquisition, guard: &Guard) {
        let Some(register) = self.registers.get(guard.name()) else { return };
        let (resource, token) = (guard.name().as_str(), guard.token());
        let began = self.recorder.now();
        if register.fence.admit(resource, token).is_err() {
            return;
        }
        let read = register.value.lock().0;
        self.nap(0, 20).await;
        let (wrote, admitted) = {
            let mut value = register.value.lock();
            value.1 += 1;
            let admitted = register.fence.admit(resource, token).is_ok();
            if admitted {
                value.0 = value.1;
            }
            (value.1, admitted)
        };
        let resource = resource.to_owned();
        op.record(What::Updated { resource, token, began, read, wrote, admitted });
    }
}

/// Records what a process got whose clock differs from the world's.
pub(super) trait OnItsClock {
    fn acquired_by(&self, env: &SimEnv, guard: &Guard);

    fn tried_by(&self, env: &SimEnv, answer: &Result<TryAcquire, Error>);
}

impl OnItsClock for Acquisition {
    fn acquired_by(&self, env: &SimEnv, guard: &Guard) {
        let valid = guard.is_valid();
        let remaining = env.in_world(guard.remaining());
        let until = valid.then(|| self.now() + remaining);
        self.acquired_until(guard.name(), guard.owner(), guard.token(), until);
    }

    fn tried_by(&self, env: &SimEnv, answer: &Result<TryAcquire, Error>) {
        match answer {
            Ok(TryAcquire::Acquired(guard)) => self.acquired_by(env, guard),
            _ => self.tried(answer),
        }
    }
}

/// Polls a future at most so many times.
struct FewPolls<F> {
    future: Pin<Box<F>>,
    polls: u32,
}

impl<F: Future> Future for FewPolls<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        match self.future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if self.polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}
