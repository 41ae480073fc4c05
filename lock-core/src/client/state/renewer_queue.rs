//! The renewer's queue: held locks by the instant at which they are due, and calls whose callers
//! have gone.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::{Handle, Id},
    sync::Notify,
};

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
    /// Held locks by the instant at which they are due, and their id.
    timers: BTreeMap<(u64, u64), Arc<Held>>,
    /// Calls whose callers have gone.
    detached: Vec<BoxFuture>,
    /// When the task will check the timers without being woken.
    armed: Option<Instant>,
    running: bool,
    stopping: bool,
    /// Whether new locks are refused.
    closed: bool,
}

impl State {
    /// Marks the task as running; `true` if the caller must start it.
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

    /// Adds a lock to the timer queue, due at `at`. Returns whether the caller must start the task;
    /// `None` if the client is closed.
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

    /// Changes when a lock is due. A lock that has left the queue stays out.
    pub(crate) fn reschedule(&self, held: &Arc<Held>, at: Instant) {
        let mut state = self.state.lock();
        let old = held.timer.load(Ordering::Relaxed);
        if state.timers.remove(&(old, held.id)).is_some() {
            held.timer.store(at.as_nanos(), Ordering::Relaxed);
            state.timers.insert((at.as_nanos(), held.id), Arc::clone(held));
            self.wake_for(&mut state, at);
        }
    }

    /// Removes a lock from the timer queue.
    pub(crate) fn unregister(&self, held: &Held) {
        let mut state = self.state.lock();
        state.timers.remove(&(held.timer.load(Ordering::Relaxed), held.id));
    }

    /// The held locks of a name.
    #[cfg(feature = "testing")]
    pub(crate) fn held_of(&self, name: &crate::LockName) -> Vec<Arc<Held>> {
        let state = self.state.lock();
        state.timers.values().filter(|held| held.grant.name == *name).cloned().collect()
    }

    /// Adds a call whose caller has gone. Returns whether the caller must start the task.
    pub(crate) fn detach(&self, call: BoxFuture) -> bool {
        let start = {
            let mut state = self.state.lock();
            state.detached.push(call);
            state.start()
        };
        self.wake.notify_one();
        start
    }

    /// Removes and returns all held locks, and refuses new ones.
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

    /// Wakes the task, unless it will check the timers by `at` anyway.
    fn wake_for(&self, state: &mut State, at: Instant) {
        if state.armed.is_none_or(|armed| at < armed) {
            state.armed = Some(at);
            self.wake.notify_one();
        }
    }

    /// Returns the locks that are due at `now`, and those that will be due so soon that they fit
    /// into the same batch. Each stays registered, due again at `due_again` in case its renewal
    /// hangs.
    pub(crate) fn tick(
        &self,
        now: Instant,
        alarm: Option<Instant>,
        due_again: fn(&Held, Instant) -> Instant,
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
            let at = due_again(held, now);
            held.timer.store(at.as_nanos(), Ordering::Relaxed);
            state.timers.insert((at.as_nanos(), held.id), Arc::clone(held));
        }
        let next = state.timers.first_key_value().map(|(key, _)| Instant::from_nanos(key.0));
        // An alarm that is set rings even if nothing is due any more.
        state.armed = next.into_iter().chain(alarm.filter(|at| *at > now)).min();
        let detached = std::mem::take(&mut state.detached);
        Tick { due, detached, next, stopping: state.stopping }
    }

    /// Marks the task as ended if it has nothing left to do; `false` if work has come since its
    /// last tick.
    pub(crate) fn end_if_idle(&self) -> bool {
        let mut state = self.state.lock();
        state.running = !(state.detached.is_empty() && state.timers.is_empty());
        !state.running
    }

    /// The runtime on which the work of a task goes on that was dropped or has panicked: that of a
    /// held lock, but none of
    /// held lock, but none of `ended`. If there is none, marks the task as ended, and returns all
    /// its work. It is one step, so that later work starts a new task.
    pub(crate) fn end_or_move(
        &self,
        ended: &[Id],
    ) -> Result<Handle, (Vec<BoxFuture>, Vec<Arc<Held>>)> {
        let mut state = self.state.lock();
        state.armed = None;
        let mut runtimes = state.timers.values().filter_map(|held| held.runtime.lock().clone());
        if let Some(runtime) = runtimes.find(|runtime| !ended.contains(&runtime.id())) {
            return Ok(runtime);
        }
        state.running = false;
        let (detached, timers) =
            (std::mem::take(&mut state.detached), std::mem::take(&mut state.timers));
        Err((detached, timers.into_values().collect()))
    }
}
