//! The queue worker of a name: it waits in the store's queue for all tasks of this process, which
//! share one entry there.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;
use tracing::Level;

use super::{
    awaited_release::AwaitedRelease,
    store_entry::{QueueRequest, StoreEntry},
};
use crate::{
    Attempt, Blocked, Busy, Enqueued, Env, Error, Grant, Instant, Mode, OncePer, Quarantined,
    Request, Signal,
    client::{
        calls::{self, Call, CleanUp},
        renewal::admit,
        state::{Alarm, Carried, ClientState, Handle, InFlight, LocalQueue, TARGET},
    },
    env::jittered,
    tunables::{
        CALL_TIMEOUTS_PER_POLL, LONGEST_RETRY_PAUSE, SHORTEST_POLL_PAUSE, SHORTEST_RETRY_PAUSE,
    },
};

/// What the worker does next.
enum Step {
    /// Request a queue entry, with this request if an earlier try of it failed.
    Enqueue(Option<QueueRequest>),
    /// Wait with a queue entry.
    Wait(StoreEntry),
    /// Wait for the release of a lock that this process holds. The release carries the next
    /// request.
    AwaitRelease(AwaitedRelease),
    /// Pause, and then request a queue entry.
    Pause(Duration, Option<QueueRequest>),
}

pub(super) struct QueueWorker {
    handle: Arc<Handle>,
    queue: Arc<LocalQueue>,
    /// The mode of all locks in this queue.
    mode: Mode,
    pause: Duration,
    /// Limits the lines about the wait.
    wait_line: OncePer,
    /// Limits the lines about attempts that fail.
    failure_line: OncePer,
    /// Rings for the next poll.
    poll_alarm: Alarm,
    /// Rings for the next check of the lock that this process holds. A separate alarm, because a
    /// suspend delays a timer by up to its span, and this span is longer.
    check_alarm: Alarm,
    /// Whether the worker has ended because no task waited.
    idle: bool,
    _in_flight: InFlight<Arc<ClientState>>,
}

impl Drop for QueueWorker {
    /// After a panic, or if there is no runtime any more: ends the waits of all tasks, because no
    /// worker acts for them.
    fn drop(&mut self) {
        if !self.idle {
            self.handle.queues(self.mode).remove(&self.queue);
        }
    }
}

impl QueueWorker {
    /// Made before its task is spawned, so that a task that never runs does not leave a queue
    /// behind.
    pub(super) fn new(handle: Arc<Handle>, queue: Arc<LocalQueue>, mode: Mode) -> Self {
        let in_flight = ClientState::count(Arc::clone(&handle.0));
        let (poll_alarm, check_alarm) = (Alarm::default(), Alarm::default());
        Self {
            handle,
            queue,
            mode,
            pause: Duration::ZERO,
            wait_line: OncePer::minute(),
            failure_line: OncePer::minute(),
            poll_alarm,
            check_alarm,
            idle: false,
            _in_flight: in_flight,
        }
    }

    /// Runs until no task waits.
    pub(super) async fn run(mut self) {
        let mut step = Step::Enqueue(None);
        while let Some(next) = self.step(step).await {
            step = next;
        }
    }

    /// Makes one step; `None` if no task waits any more and the queue is removed.
    async fn step(&mut self, step: Step) -> Option<Step> {
        if let Err(closed) = self.handle.check_open() {
            // A task may have been put back after `close` had ended all waits.
            self.queue.fail(&closed);
        }
        if self.queue.oldest().is_none() {
            let state = &self.handle.0;
            // The entry is given up before the queue is removed, so that the entry of a new task is
            // the only one.
            match step {
                Step::Wait(entry) => entry.leave(state).await,
                Step::Enqueue(Some(queued)) | Step::Pause(_, Some(queued)) => {
                    calls::abandon(state, queued.request).await;
                }
                Step::AwaitRelease(awaited) => awaited.give_up(state).await,
                Step::Enqueue(None) | Step::Pause(_, None) => {}
            }
            self.idle = self.handle.queues(self.mode).remove_idle(&self.queue);
            return (!self.idle).then_some(Step::Enqueue(None));
        }
        Some(match step {
            Step::Enqueue(queued) => self.enqueue(queued).await,
            Step::Wait(entry) => self.wait(entry).await,
            Step::AwaitRelease(awaited) => self.await_release(awaited).await,
            Step::Pause(pause, queued) => {
                let pause = self.handle.env.sleep(pause);
                tokio::select! {
                    biased;
                    () = pause => {}
                    () = self.queue.changed.notified() => {}
                }
                Step::Enqueue(queued)
            }
        })
    }

    /// Abandons the owner of a request in the background.
    fn abandon_in_background(&self, request: Request) {
        let state = Arc::clone(&self.handle.0);
        self.handle.detach(Box::pin(async move { calls::abandon(&state, request).await }));
    }

    async fn enqueue(&mut self, queued: Option<QueueRequest>) -> Step {
        if self.queue.state.lock().first_attempt {
            // After the first attempt it is known whether an entry is needed. A task that does not
            // poll its own attempt delays the others by at most the time limit of a call.
            let limit = self.handle.env.sleep(self.handle.options.call_timeout);
            tokio::select! {
                biased;
                () = self.queue.changed.notified() => {}
                () = limit => self.queue.state.lock().first_attempt = false,
            }
            return Step::Enqueue(queued);
        }
        let state = Arc::clone(&self.handle.0);
        let Some(wanted) = self.queue.oldest() else { return Step::Enqueue(queued) };
        let QueueRequest { request, doubtful } = match queued {
            Some(mut queued) => {
                queued.request.sent = state.env.now();
                queued
            }
            None => {
                QueueRequest { request: state.request(&self.queue.name, &wanted), doubtful: false }
            }
        };
        let work = calls::enqueue(Arc::clone(&state), request);
        let limit = state.options.call_timeout.saturating_mul(CALL_TIMEOUTS_PER_POLL);
        match Call::new(&state, work, after_enqueue(doubtful)).within(limit).await {
            Some((request, Ok(enqueued))) => {
                self.answered(QueueRequest { request, doubtful }, enqueued).await
            }
            Some((request, Err(error))) => {
                let doubtful = doubtful || error.is_ambiguous();
                self.failed(&error, QueueRequest { request, doubtful })
            }
            // The call is cleaned up in the background. Only a new owner is safe.
            None => Step::Pause(self.next_pause(), None),
        }
    }

    async fn answered(&mut self, queued: QueueRequest, enqueued: Enqueued) -> Step {
        self.pause = Duration::ZERO;
        self.failure_line.reset();
        match enqueued {
            Enqueued::Granted(grant) => self.deliver(grant, queued.doubtful).await,
            Enqueued::Waiting(waiter, busy) => {
                self.waits(&busy);
                Step::Wait(StoreEntry::new(waiter, queued, busy, self.handle.env.now()))
            }
            Enqueued::Quarantined(quarantined) => {
                let pause = self.quarantined(quarantined);
                Step::Pause(pause, queued.doubtful.then_some(queued))
            }
        }
    }

    /// Waits for a push, for the next poll, or for a change in the local queue.
    async fn wait(&mut self, mut entry: StoreEntry) -> Step {
        set(&mut self.poll_alarm, &*self.handle.env, entry.poll_at);
        tokio::select! {
            biased;
            signal = entry.waiter.next() => match signal {
                Signal::Granted(grant) => self.pushed(grant, entry).await,
                Signal::Recheck => self.poll(entry).await,
                Signal::Lost(why) => {
                    tracing::trace!(target: "leasehold", name = self.queue.name.as_str(), %why, "queue entry lost");
                    self.abandon_in_background(entry.queued.request);
                    Step::Pause(self.next_pause(), None)
                }
            },
            () = self.poll_alarm.ring() => self.poll_if_due(entry).await,
            () = self.queue.changed.notified() => {
                let poll_requested = std::mem::take(&mut self.queue.state.lock().poll_requested);
                if poll_requested { self.poll(entry).await } else { Step::Wait(entry) }
            }
        }
    }

    /// Polls if that is due. The alarm may have been set for an earlier entry.
    async fn poll_if_due(&mut self, entry: StoreEntry) -> Step {
        if self.handle.env.now() < entry.poll_at {
            return Step::Wait(entry);
        }
        self.poll(entry).await
    }

    /// Makes an attempt with the owner of the entry. It is the poll that backs the push, and the
    /// heartbeat of the entry.
    async fn poll(&mut self, mut entry: StoreEntry) -> Step {
        let state = Arc::clone(&self.handle.0);
        entry.queued.request.sent = state.env.now();
        let work = calls::attempt(Arc::clone(&state), entry.queued.request.clone());
        let call = Call::new(&state, work, calls::after_abandoned);
        let limit = state.options.call_timeout.saturating_mul(CALL_TIMEOUTS_PER_POLL);
        let Some((_, answer)) = call.within(limit).await else {
            // The clean-up of the call gives the entry up. Only a new owner is safe.
            return Step::Pause(self.next_pause(), None);
        };
        match answer {
            Ok(Attempt::Granted(grant)) => self.deliver(grant, entry.queued.doubtful).await,
            Ok(Attempt::Busy(busy)) => {
                self.pause = Duration::ZERO;
                self.failure_line.reset();
                self.waits(&busy);
                entry.was_busy(busy, state.env.now());
                Step::Wait(entry)
            }
            Ok(Attempt::Quarantined(quarantined)) => {
                entry.poll_at = state.env.now() + self.quarantined(quarantined);
                Step::Wait(entry)
            }
            Err(error) if error.is_retryable() => {
                self.attempt_failed(&error);
                entry.queued.doubtful |= error.is_ambiguous();
                entry.poll_at = state.env.now() + self.next_pause();
                Step::Wait(entry)
            }
            Err(error) => {
                self.queue.fail(&error);
                Step::Wait(entry)
            }
        }
    }

    async fn pushed(&mut self, grant: Grant, entry: StoreEntry) -> Step {
        match entry.usable(grant, self.handle.env.now()) {
            Some(grant) => self.deliver(grant, entry.queued.doubtful).await,
            // An attempt of the owner, not a renewal: if a poll was granted the lock again and its
            // answer was lost, a renewal would confirm this older token.
            None => self.poll(entry).await,
        }
    }

    /// Gives a grant to the oldest task that still waits.
    async fn deliver(&mut self, grant: Grant, doubtful: bool) -> Step {
        let state = Arc::clone(&self.handle.0);
        self.pause = Duration::ZERO;
        // The release of a reader carries no request: the next reader of this process does not wait
        // for it.
        let shared = grant.mode == Mode::Shared;
        let (carry, carried) = oneshot::channel();
        let carry = (!shared).then_some((grant.owner, carry));
        let Some(entry) = self.queue.take_oldest(carry) else {
            calls::release_unused(&state, grant, doubtful).await;
            return Step::Enqueue(None);
        };
        let held = match admit(&state, grant, &entry.wanted, doubtful, false) {
            Ok(held) => {
                // If the task has just gone, the lock is released, and the release carries the next
                // request.
                if entry.reply.send(Ok(Arc::clone(&held))).is_err() {
                    held.set_unused();
                    calls::release_in_background(&state, &held);
                }
                held
            }
            Err(spent) => {
                self.queue.put_back(entry);
                calls::release_unused(&state, spent, doubtful).await;
                return Step::Enqueue(None);
            }
        };
        if shared {
            return Step::Enqueue(None);
        }
        Step::AwaitRelease(AwaitedRelease::new(&state, held, carried))
    }

    /// Waits for the release of the lock that this process holds.
    async fn await_release(&mut self, mut awaited: AwaitedRelease) -> Step {
        let state = Arc::clone(&self.handle.0);
        let check_alarm = &mut self.check_alarm;
        set(check_alarm, &*state.env, awaited.next_check);
        tokio::select! {
            biased;
            answer = &mut awaited.carried => match answer {
                Ok(Carried { request, answer: Some(answer), doubtful }) => {
                    self.answered(QueueRequest { request, doubtful }, answer).await
                }
                Ok(carried) => {
                    if carried.doubtful {
                        self.abandon_in_background(carried.request);
                    }
                    Step::Enqueue(None)
                }
                Err(_) => Step::Enqueue(None),
            },
            () = self.queue.changed.notified() => Step::AwaitRelease(awaited),
            () = check_alarm.ring() => {
                if awaited.is_overdue(&state) {
                    awaited.give_up(&state).await;
                    return Step::Enqueue(None);
                }
                Step::AwaitRelease(awaited)
            }
        }
    }

    fn failed(&mut self, error: &Error, queued: QueueRequest) -> Step {
        // An earlier try may have had its effect. So the same owner tries again, or is abandoned.
        let queued = queued.doubtful.then_some(queued);
        if !error.is_retryable() {
            self.queue.fail(error);
            return Step::Enqueue(queued);
        }
        self.attempt_failed(error);
        Step::Pause(self.next_pause(), queued)
    }

    /// Logs the first failed attempt, and then one per minute until the store answers.
    fn attempt_failed(&self, error: &Error) {
        if self.failure_line.is_due(self.handle.env.now()) {
            let name = self.queue.name.as_str();
            tracing::warn!(target: TARGET, name, %error, "attempt failed; the wait goes on");
        }
    }

    /// Notes why the store grants nothing. Returns how long to wait.
    fn quarantined(&self, why: Quarantined) -> Duration {
        let pause = why.remaining.clamp(SHORTEST_POLL_PAUSE, LONGEST_RETRY_PAUSE);
        self.handle.emit_quarantined(&self.queue.name, &why);
        self.queue.set_blocked(Blocked::Quarantined(why));
        pause
    }

    /// Notes that this process waits, and logs it, at first and then once per minute.
    fn waits(&self, busy: &Busy) {
        self.queue.set_blocked(Blocked::Busy(busy.clone()));
        if tracing::enabled!(target: TARGET, Level::INFO)
            && self.wait_line.is_due(self.handle.env.now())
        {
            let holder = busy.holder.as_ref().map(|holder| tracing::field::display(&holder.label));
            tracing::info!(target: TARGET, name = self.queue.name.as_str(), holder, "waiting");
        }
    }

    fn next_pause(&mut self) -> Duration {
        self.pause = (self.pause * 2).clamp(SHORTEST_RETRY_PAUSE, LONGEST_RETRY_PAUSE);
        jittered(&*self.handle.env, self.pause)
    }
}

fn set(alarm: &mut Alarm, env: &dyn Env, at: Instant) {
    let now = env.now();
    alarm.set(now, at, || env.sleep(at.since(now)));
}

/// The clean-up of an entry that came too late.
fn after_enqueue(doubtful: bool) -> CleanUp<(Request, Result<Enqueued, Error>)> {
    if doubtful { calls::after_abandoned } else { calls::after_enqueue }
}
