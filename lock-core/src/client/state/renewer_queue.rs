//! What the renewer shares with guards and callers: held locks by the instant at which something is due, and calls
//! that have lost their caller.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::held::Held;
use crate::{Instant, env::BoxFuture, sync::Mutex, tunables::SAME_BATCH_PART};

#[derive(Default)]
pub(crate) struct RenewerQueue {
    state: Mutex<State>,
    pub(crate) wake: Notify,
    ids: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Held locks by the instant at which something is due, and their id.
    timers: BTreeMap<(u64, u64), Arc<Held>>,
    /// Calls and releases that lost their caller.
    detached: Vec<BoxFuture>,
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

/// The work that is due now.
pub(crate) struct Tick {
    pub(crate) due: Vec<Arc<Held>>,
    pub(crate) detached: Vec<BoxFuture>,
    pub(crate) next: Option<Instant>,
    pub(crate) stopping: bool,
}

impl RenewerQueue {
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Puts a lock into the timer queue; it is looked at when `at` has come. Tells whether the task
    /// has to be started; `None` when the client is closed.
    pub(crate) fn register(&self, held: &Arc<Held>, at: Instant) -> Option<bool> {
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

    /// What is held of a name.
    #[cfg(feature = "testing")]
    pub(crate) fn held_of(&self, name: &crate::LockName) -> Vec<Arc<Held>> {
        let state = self.state.lock();
        state.timers.values().filter(|held| held.grant.name == *name).cloned().collect()
    }

    /// Adds a call that has lost its caller. Tells whether the task has to be started.
    pub(crate) fn detach(&self, call: BoxFuture) -> bool {
        let start = {
            let mut state = self.state.lock();
            state.detached.push(call);
            state.start()
        };
        self.wake.notify_one();
        start
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

    /// Wakes the task, unless it would wake at `at` or before anyway.
    fn wake_for(&self, state: &mut State, at: Instant) {
        if state.armed.is_none_or(|armed| at < armed) {
            state.armed = Some(at);
            self.wake.notify_one();
        }
    }

    /// Takes what is due at `now`, and what will be due so soon that one batch can carry it. Each stays registered,
    /// to be looked at again at `look_again` if its renewal hangs.
    pub(crate) fn tick(
        &self,
        now: Instant,
        alarm: Option<Instant>,
        look_again: fn(&Held, Instant) -> Instant,
    ) -> Tick {
        let mut state = self.state.lock();
        let mut due = Vec::new();
        while let Some(first) = state.timers.first_entry() {
            let held = first.get();
            let at = Instant::from_nanos(first.key().0);
            let early =
                if due.is_empty() { Duration::ZERO } else { held.grant.lease / SAME_BATCH_PART };
            if at > now + early {
                break;
            }
            due.push(first.remove());
        }
        for held in &due {
            let at = look_again(held, now);
            held.timer.store(at.as_nanos(), Ordering::Relaxed);
            state.timers.insert((at.as_nanos(), held.id), Arc::clone(held));
        }
        let next = state.timers.first_key_value().map(|(key, _)| Instant::from_nanos(key.0));
        // An alarm that is set rings also when nothing is due any more.
        state.armed = next.into_iter().chain(alarm.filter(|at| *at > now)).min();
        let detached = std::mem::take(&mut state.detached);
        Tick { due, detached, next, stopping: state.stopping }
    }

    /// Whether the task may end: it then no longer counts as running. A job may have come in since its tick.
    pub(crate) fn ends_idle(&self) -> bool {
        let mut state = self.state.lock();
        state.running = !(state.detached.is_empty() && state.timers.is_empty());
        !state.running
    }

    /// The task has ended against its will: all that it had in its care. In one step, so that what comes in from
    /// here on has a task of its own.
    pub(crate) fn end(&self) -> (Vec<BoxFuture>, Vec<Arc<Held>>) {
        let mut state = self.state.lock();
        state.running = false;
        state.armed = None;
        let (detached, timers) =
            (std::mem::take(&mut state.detached), std::mem::take(&mut state.timers));
        (detached, timers.into_values().collect())
    }
}
