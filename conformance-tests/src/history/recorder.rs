//! Records what one process sees.

use std::sync::{
    Arc, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

use lock_core::{
    Blocked, Env, Error, ErrorKind, FencingToken, Guard, Instant, LockName, LossReason, Mode,
    Monitor, Mutex, OwnerId, SystemEnv, TryAcquire,
};

use super::{Event, History, Op, What};

/// Records what one process sees. Clones write to the same history.
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    process: u32,
    env: Arc<dyn Env>,
    numbers: AtomicU64,
    events: Mutex<Vec<Event>>,
    /// Called with each event as it is recorded.
    sink: Option<fn(&Event)>,
}

impl Recorder {
    /// A recorder for the process with this number. It uses the machine's clock.
    #[must_use]
    pub fn new(process: u32) -> Self {
        Self::with_env(process, Arc::new(SystemEnv))
    }

    /// A recorder that takes the time from `env`.
    #[must_use]
    pub fn with_env(process: u32, env: Arc<dyn Env>) -> Self {
        Self::build(process, env, None)
    }

    /// A recorder on the machine's clock that passes each event to `sink` at once, so that another
    /// process knows what a killed process saw.
    #[must_use]
    pub fn with_sink(process: u32, sink: fn(&Event)) -> Self {
        Self::build(process, Arc::new(SystemEnv), Some(sink))
    }

    fn build(process: u32, env: Arc<dyn Env>, sink: Option<fn(&Event)>) -> Self {
        let (numbers, events) = (AtomicU64::new(0), Mutex::default());
        Self { shared: Arc::new(Shared { process, env, numbers, events, sink }) }
    }

    /// The present time, for [`What::Updated`] and [`What::Forced`].
    #[must_use]
    pub fn now(&self) -> Instant {
        self.shared.env.now()
    }

    /// Records that the client is about to acquire `name`.
    #[must_use = "what becomes of the acquisition is recorded here"]
    pub fn ask(&self, name: &LockName) -> Acquisition {
        self.asks(name, None, Mode::Exclusive)
    }

    /// Records that the client is about to acquire a permit of the semaphore `name`.
    #[must_use = "what becomes of the acquisition is recorded here"]
    pub fn ask_permit(&self, name: &LockName, permits: u32) -> Acquisition {
        self.asks(name, Some(permits), Mode::Exclusive)
    }

    /// Records that the client is about to acquire `name` as a reader.
    #[must_use = "what becomes of the acquisition is recorded here"]
    pub fn ask_shared(&self, name: &LockName) -> Acquisition {
        self.asks(name, None, Mode::Shared)
    }

    /// Records that the client is about to attach a lock that the acquisition `of` had.
    #[must_use = "what becomes of the attach is recorded here"]
    pub fn attach(&self, name: &LockName, of: Op) -> Acquisition {
        let acquisition = self.next();
        acquisition.record(What::Attaching { name: name.clone(), of });
        acquisition
    }

    fn asks(&self, name: &LockName, permits: Option<u32>, mode: Mode) -> Acquisition {
        let acquisition = self.next();
        acquisition.record(What::Asked { name: name.clone(), permits, mode });
        acquisition
    }

    /// Records that an operator released `name` by force, and began at `began`.
    pub fn forced(&self, name: &LockName, began: Instant) {
        self.next().record(What::Forced { name: name.clone(), began });
    }

    /// Everything recorded so far.
    #[must_use]
    pub fn history(&self) -> History {
        History::new(self.events().clone())
    }

    fn next(&self) -> Acquisition {
        let number = self.shared.numbers.fetch_add(1, Ordering::Relaxed);
        let op = Op { process: self.shared.process, number };
        Acquisition { recorder: self.clone(), op }
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.shared.events.lock()
    }
}

/// One acquisition of a process. Clones record for the same acquisition.
#[derive(Clone, Debug)]
pub struct Acquisition {
    recorder: Recorder,
    op: Op,
}

impl Acquisition {
    /// The id of the acquisition.
    #[must_use]
    pub fn op(&self) -> Op {
        self.op
    }

    /// The present time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.recorder.now()
    }

    /// Records anything, at the present time.
    pub fn record(&self, what: What) {
        self.record_at(self.recorder.now(), what);
    }

    /// Records what was seen at `at`.
    pub fn record_at(&self, at: Instant, what: What) {
        let event = Event { at, op: self.op, what };
        if let Some(sink) = self.recorder.shared.sink {
            sink(&event);
        }
        self.recorder.events().push(event);
    }

    /// Records the guard that acquire returned.
    pub fn acquired(&self, guard: &Guard) {
        let now = self.recorder.now();
        let until = reliable(now, guard.is_valid(), guard.remaining());
        self.acquired_until(guard.name(), guard.owner(), guard.token(), until);
    }

    /// Records the lock `name` through a monitor. A monitor has no owner id, so the token is used
    /// as the owner.
    pub fn acquired_through(&self, name: &LockName, monitor: &Monitor) {
        let now = self.recorder.now();
        let until = reliable(now, monitor.is_valid(), monitor.remaining());
        let owner = OwnerId::from_bits(monitor.token().get().into());
        self.acquired_until(name, owner, monitor.token(), until);
    }

    /// Records a guard by its parts.
    pub fn acquired_until(
        &self,
        lock: &LockName,
        owner: OwnerId,
        token: FencingToken,
        until: Option<Instant>,
    ) {
        self.record(What::Acquired { owner, token, until, lock: Some(lock.clone()) });
    }

    /// Records the error of an acquire.
    pub fn failed(&self, error: &Error) {
        let token = match error.blocked() {
            Some(Blocked::Busy(busy)) => Some(busy.token),
            _ => None,
        };
        self.record(What::NotAcquired { token, why: error.to_string() });
    }

    /// Records the answer of a `try_acquire`.
    pub fn tried(&self, answer: &Result<TryAcquire, Error>) {
        match answer {
            Ok(TryAcquire::Acquired(guard)) => self.acquired(guard),
            Ok(TryAcquire::Busy(busy)) => {
                self.record(What::NotAcquired { token: Some(busy.token), why: "busy".into() });
            }
            Ok(TryAcquire::Quarantined(held_back)) => {
                self.record(What::NotAcquired { token: None, why: held_back.why.clone() });
            }
            Err(error) => self.failed(error),
        }
    }

    /// Records the answer of an attach.
    pub fn attached(&self, answer: &Result<Guard, Error>) {
        match answer {
            Ok(guard) => self.acquired(guard),
            Err(error) if error.kind() == ErrorKind::NotHeld => self.record(What::NotHeld),
            Err(error) => self.failed(error),
        }
    }

    /// Records that the acquire's future was dropped.
    pub fn cancelled(&self) {
        self.record(What::Cancelled);
    }

    /// Checks the guard and records the result; returns whether the guard is valid.
    pub fn look(&self, guard: &Guard) -> bool {
        let now = self.recorder.now();
        let valid = guard.is_valid();
        self.looked(now, valid, reliable(now, valid, guard.remaining()))
    }

    /// The same, through a monitor.
    pub fn look_through(&self, monitor: &Monitor) -> bool {
        let now = self.recorder.now();
        let valid = monitor.is_valid();
        self.looked(now, valid, reliable(now, valid, monitor.remaining()))
    }

    /// Records the loss that a guard reported.
    pub fn lost(&self, reason: LossReason) {
        self.record(What::Lost { reason });
    }

    /// Records that the guard is about to be released or dropped.
    pub fn given_up(&self) {
        self.record(What::GivenUp);
    }

    /// Records the answer to the release.
    pub fn released(&self, answer: &Result<(), Error>) {
        let failed = answer.as_ref().err().map(Error::to_string);
        self.record(What::Released { failed });
    }

    fn looked(&self, now: Instant, valid: bool, until: Option<Instant>) -> bool {
        // A valid guard was valid when the check began; an invalid guard is invalid when the check
        // has ended.
        let at = if until.is_some() { now } else { self.recorder.now() };
        self.record_at(at, What::Looked { until });
        valid
    }
}

/// Until when a holder can rely on its guard, counted from before the check.
fn reliable(now: Instant, valid: bool, remaining: std::time::Duration) -> Option<Instant> {
    // The validity may end between the two calls: the guard was valid, but no time remains.
    valid.then(|| now + remaining)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::{LockClient, Memory};

    use super::*;
    use crate::history::{ALL_RULES, assert_clean};

    #[tokio::test]
    async fn a_real_lock_makes_a_clean_history() {
        let client = LockClient::new(Arc::new(Memory::new()));
        let recorder = Recorder::new(1);
        let name = LockName::new("job").unwrap();
        for _ in 0..3 {
            let op = recorder.ask(&name);
            let guard = client.lock(name.clone()).acquire().await.unwrap();
            op.acquired(&guard);
            let tried = recorder.ask(&name);
            tried.tried(&client.lock(name.clone()).try_acquire().await);
            let waited = recorder.ask(&name);
            let lock = client.lock(name.clone()).wait(Duration::from_millis(1));
            waited.failed(&lock.acquire().await.unwrap_err());
            assert!(op.look(&guard) && op.look_through(&guard.monitor()));
            op.given_up();
            op.released(&guard.release().await);
        }
        let history = recorder.history();
        assert_eq!(history.events().len(), 3 * 10);
        assert_clean(&history, ALL_RULES);
    }

    #[tokio::test]
    async fn a_lock_that_is_handed_over_makes_a_clean_history() {
        let client = LockClient::new(Arc::new(Memory::new()));
        let recorder = Recorder::new(1);
        let name = LockName::new("job").unwrap();
        let mut op = recorder.ask(&name);
        let mut guard = client.lock(name.clone()).acquire().await.unwrap();
        op.acquired(&guard);
        for _ in 0..3 {
            op.given_up();
            let monitor = guard.monitor();
            let lock = guard.detach().await.unwrap();
            op.record(What::Detached);
            assert!(!op.look_through(&monitor));
            let of = op.op();
            op = recorder.attach(&name, of);
            let answer = client.attach(&lock).await;
            op.attached(&answer);
            guard = answer.unwrap();
            recorder.attach(&name, of).attached(&client.attach(&lock).await);
        }
        op.given_up();
        op.released(&guard.release().await);
        let next = recorder.ask(&name);
        next.acquired(&client.lock(name.clone()).acquire().await.unwrap());
        let history = recorder.history();
        assert_eq!(history.events().len(), 2 + 3 * 7 + 4);
        assert_clean(&history, ALL_RULES);
    }
}
