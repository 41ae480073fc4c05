//! The simulated world: tasks, time and random numbers, all from one seed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    future::Future,
    pin::Pin,
    sync::{Arc, MutexGuard, Weak},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use lock_core::{BoxFuture, Mutex};

/// A simulated process. The network and the store are [`NET`].
pub type Process = u32;

/// The process that is never paused or killed.
pub const NET: Process = 0;

/// So many polls at the same time mean that a task loops.
const BUSY: u32 = 20_000;

/// Runs tasks in an order drawn from the seed, on a clock that jumps to the next timer.
#[derive(Clone)]
pub struct World(Arc<Shared>);

#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    now: u64,
    random: u64,
    numbers: u64,
    tasks: BTreeMap<u64, Task>,
    ready: Vec<u64>,
    timers: BTreeMap<(u64, u64), Waker>,
    paused: BTreeMap<Process, u64>,
    stopped: BTreeMap<Process, u64>,
    dead: BTreeSet<Process>,
    polls: u32,
    log: String,
}

struct Task {
    process: Process,
    /// `None` while it is polled.
    future: Option<BoxFuture>,
    queued: bool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The condition is met.
    Done,
    /// The time limit came first.
    TimeOut,
    /// No task can run any more.
    Idle,
    /// A task was polled again and again while no time passed.
    Busy,
}

impl World {
    /// A world whose random numbers come from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State { now: 1_000_000_000, random: seed, ..State::default() };
        Self(Arc::new(Shared(Mutex::new(state))))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state()
    }

    /// Nanoseconds since the world's start.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.state().now
    }

    /// 64 random bits (Steele, Lea and Flood's SplitMix).
    #[must_use]
    pub fn bits(&self) -> u64 {
        let mut state = self.state();
        state.random = state.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state.random ^ (state.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `below`.
    #[must_use]
    pub fn roll(&self, below: u64) -> u64 {
        self.bits() % below.max(1)
    }

    /// `true` with a probability of `per_mille` in a thousand.
    #[must_use]
    pub fn chance(&self, per_mille: u64) -> bool {
        self.roll(1_000) < per_mille
    }

    /// A span from `least` to `most`.
    #[must_use]
    pub fn span(&self, least: Duration, most: Duration) -> Duration {
        let (least, most) = (least.as_nanos() as u64, most.as_nanos() as u64);
        Duration::from_nanos(least + self.roll(most.saturating_sub(least) + 1))
    }

    /// Writes a line into the event log.
    pub fn log(&self, line: fmt::Arguments<'_>) {
        let mut state = self.state();
        let micros = state.now / 1_000;
        // Writing to a string cannot fail.
        let _ = writeln!(state.log, "{micros:>10} {line}");
    }

    /// The event log so far.
    #[must_use]
    pub fn take_log(&self) -> String {
        std::mem::take(&mut self.state().log)
    }

    /// Starts a task; `false` if its process is dead.
    pub fn spawn(&self, process: Process, future: BoxFuture) -> bool {
        let mut state = self.state();
        if state.dead.contains(&process) {
            return false;
        }
        let id = state.number();
        state.tasks.insert(id, Task { process, future: Some(future), queued: true });
        state.ready.push(id);
        true
    }

    /// The number of tasks whose process `counts`.
    #[must_use]
    pub fn tasks(&self, counts: impl Fn(Process) -> bool) -> usize {
        self.state().tasks.values().filter(|task| counts(task.process)).count()
    }

    /// Stops all tasks of a process for a while.
    pub fn pause(&self, process: Process, span: Duration) {
        let mut state = self.state();
        let until = state.now + span.as_nanos() as u64;
        state.paused.insert(process, until);
        *state.stopped.entry(process).or_default() += span.as_nanos() as u64;
    }

    /// How long a process was paused in total.
    #[must_use]
    pub fn stopped(&self, process: Process) -> u64 {
        self.state().stopped.get(&process).copied().unwrap_or(0)
    }

    /// Ends a process: its tasks are dropped, and it can start no more.
    pub fn kill(&self, process: Process) {
        let futures: Vec<_> = {
            let mut state = self.state();
            state.dead.insert(process);
            let ids: Vec<_> = state
                .tasks
                .iter()
                .filter(|(_, task)| task.process == process)
                .map(|(id, _)| *id)
                .collect();
            ids.iter().filter_map(|id| state.tasks.remove(id)).collect()
        };
        // Dropped outside the mutex, since a dropped task may call into this world.
        drop(futures);
    }

    /// Whether a process was killed.
    #[must_use]
    pub fn is_dead(&self, process: Process) -> bool {
        self.state().dead.contains(&process)
    }

    /// Sleeps until the world's clock shows `at`.
    #[must_use]
    pub fn sleep_until(&self, at: u64) -> Sleep {
        Sleep { world: self.clone(), at, key: None }
    }

    /// Sleeps for `span` of the world's time.
    #[must_use]
    pub fn sleep(&self, span: Duration) -> Sleep {
        self.sleep_until(self.now() + span.as_nanos() as u64)
    }

    /// Runs until `done`, or until the clock shows `limit`.
    pub fn run_until(&self, limit: u64, done: impl Fn(&Self) -> bool) -> End {
        loop {
            if done(self) {
                return End::Done;
            }
            match self.pick() {
                Some(id) => {
                    if self.state().polls > BUSY {
                        return End::Busy;
                    }
                    self.poll(id);
                }
                None => match self.advance(limit) {
                    Ok(wakers) => wakers.into_iter().for_each(Waker::wake),
                    Err(end) => return end,
                },
            }
        }
    }

    /// A random ready task of a process that is not paused.
    fn pick(&self) -> Option<u64> {
        let draw = self.bits();
        let mut state = self.state();
        let State { ready, tasks, paused, .. } = &mut *state;
        ready.retain(|id| tasks.contains_key(id));
        let runs = |id: &u64| tasks.get(id).is_some_and(|task| !paused.contains_key(&task.process));
        let able: Vec<usize> = (0..ready.len()).filter(|at| runs(&ready[*at])).collect();
        if able.is_empty() {
            return None;
        }
        let id = ready.remove(able[(draw % able.len() as u64) as usize]);
        state.polls += 1;
        Some(id)
    }

    fn poll(&self, id: u64) {
        let future = {
            let mut state = self.state();
            state.tasks.get_mut(&id).and_then(|task| {
                task.queued = false;
                task.future.take()
            })
        };
        let Some(mut future) = future else { return };
        let waker = Waker::from(Arc::new(TaskWaker { world: Arc::downgrade(&self.0), id }));
        let ready = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut rest = Some(future);
        {
            let mut state = self.state();
            if ready {
                state.tasks.remove(&id);
            } else if let Some(task) = state.tasks.get_mut(&id) {
                task.future = rest.take();
            }
        }
        drop(rest);
    }

    /// Moves the clock to the next event.
    fn advance(&self, limit: u64) -> Result<Vec<Waker>, End> {
        let mut state = self.state();
        let timer = state.timers.first_key_value().map(|((at, _), _)| *at);
        let resume = state.paused.values().min().copied();
        let Some(next) = timer.into_iter().chain(resume).min() else { return Err(End::Idle) };
        if next > limit {
            state.now = limit;
            return Err(End::TimeOut);
        }
        if next > state.now {
            state.now = next;
            state.polls = 0;
        }
        let now = state.now;
        state.paused.retain(|_, until| *until > now);
        let mut wakers = Vec::new();
        while let Some(first) = state.timers.first_entry().filter(|first| first.key().0 <= now) {
            wakers.push(first.remove());
        }
        Ok(wakers)
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("World")
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

struct TaskWaker {
    world: Weak<Shared>,
    id: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let Some(world) = self.world.upgrade() else { return };
        let mut state = world.state();
        let State { tasks, ready, .. } = &mut *state;
        if let Some(task) = tasks.get_mut(&self.id).filter(|task| !task.queued) {
            task.queued = true;
            ready.push(self.id);
        }
    }
}

/// A timer on the world's clock.
#[derive(Debug)]
pub struct Sleep {
    world: World,
    at: u64,
    key: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let world = self.world.clone();
        let mut state = world.state();
        if state.now >= self.at {
            return Poll::Ready(());
        }
        let key = match self.key {
            Some(key) => key,
            None => (self.at, state.number()),
        };
        self.key = Some(key);
        let replaced = state.timers.insert(key, context.waker().clone());
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let removed = self.key.and_then(|key| self.world.state().timers.remove(&key));
        drop(removed);
    }
}
