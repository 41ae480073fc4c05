//! The keeper: one task per client that renews what is held, notices what is lost, and finishes
//! what callers left behind.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::sync::Notify;

use super::{
    alarm::Alarm,
    held::{End, Held},
    inner::{Inner, Lock},
    renewal,
};
use crate::{Instant, LossReason, env::BoxFuture};

/// What the keeper shares with guards and callers.
#[derive(Default)]
pub(crate) struct Keeper {
    state: Lock<State>,
    wake: Notify,
    ids: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Held locks by the instant at which something is due, and their id.
    timers: BTreeMap<(u64, u64), Arc<Held>>,
    /// Calls and releases that lost their caller.
    orphans: Vec<BoxFuture>,
    /// When the task will look at the timers by itself.
    armed: Option<Instant>,
    running: bool,
    stopping: bool,
    /// Nothing is taken into care any more.
    closed: bool,
}

impl State {
    /// Whether the caller has to start the task.
    fn start(&mut self) -> bool {
        !std::mem::replace(&mut self.running, true)
    }
}

/// What is to be done now.
struct Tick {
    due: Vec<Arc<Held>>,
    orphans: Vec<BoxFuture>,
    next: Option<Instant>,
    stopping: bool,
}

impl Keeper {
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Puts a lock into the timer queue; it is looked at when `at` has come. Tells whether the task
    /// has to be started; `None` when the client is closed.
    fn register(&self, held: &Arc<Held>, at: Instant) -> Option<bool> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        held.timer.store(at.as_nanos(), Ordering::Relaxed);
        state.timers.insert((at.as_nanos(), held.id), Arc::clone(held));
        self.wake_for(&mut state, at);
        Some(state.start())
    }

    /// Moves a lock in the timer queue; one that has left it stays away.
    pub(crate) fn reschedule(&self, held: &Arc<Held>, at: Instant) {
        let mut state = self.state.lock();
        let old = held.timer.load(Ordering::Relaxed);
        if state.timers.remove(&(old, held.id)).is_some() {
            held.timer.store(at.as_nanos(), Ordering::Relaxed);
            state.timers.insert((at.as_nanos(), held.id), Arc::clone(held));
            self.wake_for(&mut state, at);
        }
    }

    /// Takes a lock out of the timer queue.
    pub(crate) fn unregister(&self, held: &Held) {
        let mut state = self.state.lock();
        state.timers.remove(&(held.timer.load(Ordering::Relaxed), held.id));
    }

    /// Takes everything that is held out of its care, and takes nothing into it any more.
    pub(crate) fn close(&self) -> Vec<Arc<Held>> {
        let mut state = self.state.lock();
        state.closed = true;
        std::mem::take(&mut state.timers).into_values().collect()
    }

    /// Lets the task end when it has nothing left to do.
    pub(crate) fn stop(&self) {
        self.state.lock().stopping = true;
        self.wake.notify_one();
    }

    /// Wakes the task if nothing has told it yet to be there at `at`.
    fn wake_for(&self, state: &mut State, at: Instant) {
        if state.armed.is_none_or(|armed| at < armed) {
            state.armed = Some(at);
            self.wake.notify_one();
        }
    }

    /// Takes what is due at `now`, and what will be due so soon that one batch can carry it.
    fn tick(&self, now: Instant, alarm: Option<Instant>) -> Tick {
        let mut state = self.state.lock();
        let mut due = Vec::new();
        while let Some(first) = state.timers.first_entry() {
            let held = first.get();
            let at = Instant::from_nanos(first.key().0);
            let early = if due.is_empty() { Duration::ZERO } else { held.grant.lease / 24 };
            if at > now + early {
                break;
            }
            due.push(first.remove());
        }
        // Each stays registered, to be looked at again if its renewal hangs.
        for held in &due {
            let at = renewal::look_again(held, now);
            held.timer.store(at.as_nanos(), Ordering::Relaxed);
            state.timers.insert((at.as_nanos(), held.id), Arc::clone(held));
        }
        let next = state.timers.first_key_value().map(|(key, _)| Instant::from_nanos(key.0));
        // An alarm that is set rings also when nothing is due any more.
        state.armed = next.into_iter().chain(alarm.filter(|at| *at > now)).min();
        let orphans = std::mem::take(&mut state.orphans);
        Tick { due, orphans, next, stopping: state.stopping }
    }
}

impl Inner {
    /// Hands a newly held lock to the keeper; `false` when the client is closed.
    pub(crate) fn keep(self: &Arc<Self>, held: &Arc<Held>, at: Instant) -> bool {
        let start = self.keeper.register(held, at);
        if start == Some(true) {
            self.start_keeper();
        }
        start.is_some()
    }

    /// Hands over a future whose caller has gone; `close` waits for it. Without a runtime it is
    /// dropped, and the lease is the bound.
    pub(crate) fn adopt(self: &Arc<Self>, orphan: BoxFuture) {
        let in_flight = Self::count(Arc::clone(self));
        let orphan = Box::pin(async move {
            let _in_flight = in_flight;
            orphan.await;
        });
        let start = {
            let mut state = self.keeper.state.lock();
            state.orphans.push(orphan);
            state.start()
        };
        self.keeper.wake.notify_one();
        if start {
            self.start_keeper();
        }
    }

    fn start_keeper(self: &Arc<Self>) {
        // If there is no runtime, the task is dropped at once, and its end marks what is held.
        let _ = self.env.spawn(Box::pin(run(Arc::clone(self), Ending(Some(Arc::clone(self))))));
    }
}

/// The end of the task against its will, by a panic or because its runtime was shut down: nobody
/// renews any more, so everything still held is lost, and says so.
struct Ending(Option<Arc<Inner>>);

impl Ending {
    fn defuse(mut self) {
        self.0 = None;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(inner) = self.0.take() else { return };
        // In one step: what comes in from here on has a task of its own.
        let (orphans, timers) = {
            let mut state = inner.keeper.state.lock();
            state.running = false;
            state.armed = None;
            (std::mem::take(&mut state.orphans), std::mem::take(&mut state.timers))
        };
        for held in timers.into_values() {
            inner.waiting.forget_carry(&held.grant);
            held.finish(End::Lost(LossReason::RuntimeEnded));
        }
        // Dropped outside the mutex: an orphan's own drop may come back here.
        drop(orphans);
    }
}

async fn run(inner: Arc<Inner>, ending: Ending) {
    let inner = &inner;
    let mut calls = FuturesUnordered::<BoxFuture>::new();
    let mut alarm = Alarm::default();
    loop {
        let now = inner.env.now();
        let tick = inner.keeper.tick(now, alarm.at());
        calls.extend(tick.orphans);
        let renewals = renewal::sort_out(inner, tick.due, now);
        if !renewals.is_empty() {
            calls.push(Box::pin(renewal::renew(Arc::clone(inner), renewals)));
        }
        if tick.stopping && calls.is_empty() && tick.next.is_none() {
            // A job may have come in since the tick.
            let idle = {
                let mut state = inner.keeper.state.lock();
                state.running = !(state.orphans.is_empty() && state.timers.is_empty());
                !state.running
            };
            if idle {
                // From here on another task may run: its state is not this one's to end.
                return ending.defuse();
            }
            continue;
        }
        if let Some(next) = tick.next {
            alarm.set(now, next, || inner.env.sleep_until(next));
        }
        // In this order always: a simulation wants the same run again. Calls first, since a busy client
        // may be woken without a pause.
        tokio::select! {
            biased;
            Some(()) = calls.next(), if !calls.is_empty() => continue,
            () = inner.keeper.wake.notified() => continue,
            () = alarm.ring() => {}
        }
    }
}
