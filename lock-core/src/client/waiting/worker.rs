//! The queue worker of a name: asks the store for all tasks of this process that wait, in the one place that they share.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::followed::Followed;
use crate::{
    Attempt, Blocked, Busy, Enqueued, Env, Error, Grant, Instant, Mode, Request, Signal, Waiter,
    client::{
        calls::{self, Call, CleanUp},
        renewal::admit,
        state::{Alarm, Carried, ClientState, Handle, InFlight, LocalQueue, validity},
    },
    env::jittered,
    tunables::{
        CALLS_PER_QUESTION, LONGEST_RETRY_PAUSE, SHORTEST_POLL_PAUSE, SHORTEST_RETRY_PAUSE,
    },
};

/// What the worker does next.
enum Step {
    /// Take a place, with this request if an earlier try of it failed.
    Enqueue(Option<Asked>),
    /// Wait in a place.
    Wait(StorePlace),
    /// A guard of this process holds the lock: its release brings the next place.
    Follow(Followed),
    /// Come back later.
    Pause(Duration, Option<Asked>),
}

/// The request of one place, from its first try to its grant or withdrawal.
struct Asked {
    request: Request,
    /// A try of it had no answer: a late request may yet come, also after the grant was released.
    doubtful: bool,
}

struct StorePlace {
    waiter: Box<dyn Waiter>,
    asked: Asked,
    /// The last `Busy` answer, and an instant before its attempt: what a push is measured by.
    last: Busy,
    answered_from: Instant,
    ask_at: Instant,
}

impl StorePlace {
    async fn leave(self, state: &Arc<ClientState>) {
        if self.asked.doubtful {
            // `leave` does not stop late requests.
            drop(self.waiter);
            calls::abandon(state, self.asked.request).await;
        } else {
            calls::leave(state, self.waiter, self.asked.request).await;
        }
    }
}

pub(super) struct QueueWorker {
    handle: Arc<Handle>,
    queue: Arc<LocalQueue>,
    /// Of all locks that are waited for in this queue.
    mode: Mode,
    pause: Duration,
    /// For the next poll.
    polls: Alarm,
    /// For the next look at the guard that is followed: another, since a suspend makes a timer as late as its span
    /// is long.
    looks: Alarm,
    /// No task waited any more.
    deserted: bool,
    _in_flight: InFlight<Arc<ClientState>>,
}

impl Drop for QueueWorker {
    /// Also by a panic, or where the runtime ends or never was: the waiters then learn that no worker asks for them.
    fn drop(&mut self) {
        if !self.deserted {
            self.handle.queues(self.mode).remove(&self.queue);
        }
    }
}

impl QueueWorker {
    /// Made before its task, so that a task that never runs leaves no queue behind either.
    pub(super) fn new(handle: Arc<Handle>, queue: Arc<LocalQueue>, mode: Mode) -> Self {
        let in_flight = ClientState::count(Arc::clone(&handle.0));
        let (polls, looks) = (Alarm::default(), Alarm::default());
        let (pause, deserted) = (Duration::ZERO, false);
        Self { handle, queue, mode, pause, polls, looks, deserted, _in_flight: in_flight }
    }

    /// Runs until no task waits.
    pub(super) async fn run(mut self) {
        let mut step = Step::Enqueue(None);
        while let Some(next) = self.step(step).await {
            step = next;
        }
    }

    /// Makes one step; `None` when the queue was deserted and is gone.
    async fn step(&mut self, step: Step) -> Option<Step> {
        if let Err(closed) = self.handle.check_open() {
            // One may have been put back after `close` turned all away.
            self.queue.fail(&closed);
        }
        if self.queue.oldest().is_none() {
            let state = &self.handle.0;
            // The place is given up before the queue goes, so that a newcomer's is the only one.
            match step {
                Step::Wait(place) => place.leave(state).await,
                Step::Enqueue(Some(asked)) | Step::Pause(_, Some(asked)) => {
                    calls::abandon(state, asked.request).await;
                }
                Step::Follow(followed) => followed.give_up(state).await,
                Step::Enqueue(None) | Step::Pause(_, None) => {}
            }
            self.deserted = self.handle.queues(self.mode).remove_deserted(&self.queue);
            return (!self.deserted).then_some(Step::Enqueue(None));
        }
        Some(match step {
            Step::Enqueue(asked) => self.enqueue(asked).await,
            Step::Wait(place) => self.wait(place).await,
            Step::Follow(followed) => self.follow(followed).await,
            Step::Pause(pause, asked) => {
                let pause = self.handle.env.sleep(pause);
                tokio::select! {
                    biased;
                    () = pause => {}
                    () = self.queue.changed.notified() => {}
                }
                Step::Enqueue(asked)
            }
        })
    }

    /// Makes sure in the background that nothing comes of a request that is not used any more.
    fn forget(&self, request: Request) {
        let state = Arc::clone(&self.handle.0);
        self.handle.detach(Box::pin(async move { calls::abandon(&state, request).await }));
    }

    async fn enqueue(&mut self, asked: Option<Asked>) -> Step {
        if self.queue.state.lock().first {
            // The end of the first attempt says whether there is anything to ask for. A task that does not poll its own
            // attempt holds the others up for no longer than a call may take.
            let limit = self.handle.env.sleep(self.handle.options.call_timeout);
            tokio::select! {
                biased;
                () = self.queue.changed.notified() => {}
                () = limit => self.queue.state.lock().first = false,
            }
            return Step::Enqueue(asked);
        }
        let state = Arc::clone(&self.handle.0);
        let Some(wanted) = self.queue.oldest() else { return Step::Enqueue(asked) };
        let Asked { request, doubtful } = match asked {
            Some(mut asked) => {
                asked.request.sent = state.env.now();
                asked
            }
            None => Asked { request: state.request(&self.queue.name, &wanted), doubtful: false },
        };
        let work = calls::enqueue(Arc::clone(&state), request);
        let limit = state.options.call_timeout.saturating_mul(CALLS_PER_QUESTION);
        match Call::new(&state, work, after_enqueue(doubtful)).within(limit).await {
            Some((request, Ok(enqueued))) => {
                self.answered(Asked { request, doubtful }, enqueued).await
            }
            Some((request, Err(error))) => {
                let doubtful = doubtful || error.is_ambiguous();
                self.failed(&error, Asked { request, doubtful })
            }
            // The call is being cleaned up; only a fresh owner is safe.
            None => Step::Pause(self.next_pause(), None),
        }
    }

    async fn answered(&mut self, asked: Asked, enqueued: Enqueued) -> Step {
        self.pause = Duration::ZERO;
        match enqueued {
            Enqueued::Granted(grant) => self.deliver(grant, asked.doubtful).await,
            Enqueued::Waiting(waiter, last) => {
                let answered_from = asked.request.sent;
                let ask_at = self.handle.env.now() + last.retry_after.max(SHORTEST_POLL_PAUSE);
                self.queue.block(Blocked::Busy(last.clone()));
                Step::Wait(StorePlace { waiter, asked, last, answered_from, ask_at })
            }
            Enqueued::Quarantined(quarantined) => {
                let pause = quarantined.remaining.clamp(SHORTEST_POLL_PAUSE, LONGEST_RETRY_PAUSE);
                self.handle.tell_quarantined(&self.queue.name, &quarantined);
                self.queue.block(Blocked::Quarantined(quarantined));
                Step::Pause(pause, asked.doubtful.then_some(asked))
            }
        }
    }

    /// Waits for a push, for the time of the next poll, or for a change among the waiters.
    async fn wait(&mut self, mut place: StorePlace) -> Step {
        set(&mut self.polls, &*self.handle.env, place.ask_at);
        tokio::select! {
            biased;
            signal = place.waiter.next() => match signal {
                Signal::Granted(grant) => self.pushed(grant, place).await,
                Signal::Recheck => self.ask(place).await,
                Signal::Lost(why) => {
                    tracing::debug!(name = self.queue.name.as_str(), %why, "place lost");
                    self.forget(place.asked.request);
                    Step::Pause(self.next_pause(), None)
                }
            },
            () = self.polls.ring() => self.poll(place).await,
            () = self.queue.changed.notified() => {
                let poked = std::mem::take(&mut self.queue.state.lock().poked);
                if poked { self.ask(place).await } else { Step::Wait(place) }
            }
        }
    }

    /// Asks again, if that is due: the alarm may have been set for another place.
    async fn poll(&mut self, place: StorePlace) -> Step {
        if self.handle.env.now() < place.ask_at {
            return Step::Wait(place);
        }
        self.ask(place).await
    }

    /// Asks again with the place's owner: the poll behind the push, and the place's heartbeat.
    async fn ask(&mut self, mut place: StorePlace) -> Step {
        let state = Arc::clone(&self.handle.0);
        place.asked.request.sent = state.env.now();
        let work = calls::attempt(Arc::clone(&state), place.asked.request.clone());
        let call = Call::new(&state, work, calls::after_asking);
        let limit = state.options.call_timeout.saturating_mul(CALLS_PER_QUESTION);
        let Some((_, answer)) = call.within(limit).await else {
            // The end of the call gives the place up; only a fresh owner is safe.
            return Step::Pause(self.next_pause(), None);
        };
        match answer {
            Ok(Attempt::Granted(grant)) => self.deliver(grant, place.asked.doubtful).await,
            Ok(Attempt::Busy(busy)) => {
                self.pause = Duration::ZERO;
                place.answered_from = place.asked.request.sent;
                place.ask_at = state.env.now() + busy.retry_after.max(SHORTEST_POLL_PAUSE);
                self.queue.block(Blocked::Busy(busy.clone()));
                place.last = busy;
                Step::Wait(place)
            }
            Ok(Attempt::Quarantined(quarantined)) => {
                let pause = quarantined.remaining.clamp(SHORTEST_POLL_PAUSE, LONGEST_RETRY_PAUSE);
                place.ask_at = state.env.now() + pause;
                state.tell_quarantined(&self.queue.name, &quarantined);
                self.queue.block(Blocked::Quarantined(quarantined));
                Step::Wait(place)
            }
            Err(error) if error.is_retryable() => {
                tracing::warn!(name = self.queue.name.as_str(), %error, "attempt failed");
                place.asked.doubtful |= error.is_ambiguous();
                place.ask_at = state.env.now() + self.next_pause();
                Step::Wait(place)
            }
            Err(error) => {
                self.queue.fail(&error);
                Step::Wait(place)
            }
        }
    }

    /// Takes a pushed grant (S3): it counts from before the last attempt answered `Busy`, and one
    /// whose token is not above that answer's is old. One that is spent by that count, or nearly, is
    /// asked for before anybody gets it.
    async fn pushed(&mut self, mut grant: Grant, place: StorePlace) -> Step {
        if grant.token <= place.last.token {
            return self.ask(place).await;
        }
        if grant.claim.is_some() {
            grant.from = place.answered_from;
        }
        // With little left the guard might be lost before its first renewal is answered.
        let until = validity(&grant);
        let left = until.since(self.handle.env.now());
        if left < until.since(grant.from) / 2 {
            // An attempt of its owner, and no renewal: should a poll have been granted another since, whose answer
            // was lost, a renewal would say yes to this one's older token.
            return self.ask(place).await;
        }
        self.deliver(grant, place.asked.doubtful).await
    }

    /// Gives a grant to the oldest waiter that is still there.
    async fn deliver(&mut self, grant: Grant, doubtful: bool) -> Step {
        let state = Arc::clone(&self.handle.0);
        self.pause = Duration::ZERO;
        // A reader's release brings no place: the next reader of this process need not wait for it.
        let shared = grant.mode == Mode::Shared;
        let (carry, carried) = oneshot::channel();
        let carry = (!shared).then_some((grant.owner, carry));
        let Some(entry) = self.queue.take_oldest(carry) else {
            calls::give_back(&state, grant, doubtful).await;
            return Step::Enqueue(None);
        };
        let held = match admit(&state, grant, &entry.wanted, doubtful, false) {
            Ok(held) => {
                // If the waiter has just gone, the lock is released, with the carry.
                if entry.reply.send(Ok(Arc::clone(&held))).is_err() {
                    held.set_unused();
                    calls::let_go(&state, &held);
                }
                held
            }
            Err(spent) => {
                self.queue.put_back(entry);
                calls::give_back(&state, spent, doubtful).await;
                return Step::Enqueue(None);
            }
        };
        if shared {
            return Step::Enqueue(None);
        }
        Step::Follow(Followed::new(&state, held, carried))
    }

    /// Waits for the release of the guard that this process was given.
    async fn follow(&mut self, mut followed: Followed) -> Step {
        let state = Arc::clone(&self.handle.0);
        let looks = &mut self.looks;
        set(looks, &*state.env, followed.look_at);
        tokio::select! {
            biased;
            answer = &mut followed.carried => match answer {
                Ok(Carried { request, answer: Some(answer), doubtful }) => {
                    self.answered(Asked { request, doubtful }, answer).await
                }
                Ok(carried) => {
                    if carried.doubtful {
                        self.forget(carried.request);
                    }
                    Step::Enqueue(None)
                }
                Err(_) => Step::Enqueue(None),
            },
            () = self.queue.changed.notified() => Step::Follow(followed),
            () = looks.ring() => {
                if followed.is_over(&state) {
                    followed.give_up(&state).await;
                    return Step::Enqueue(None);
                }
                Step::Follow(followed)
            }
        }
    }

    fn failed(&mut self, error: &Error, asked: Asked) -> Step {
        // The same owner asks again, or is abandoned: an earlier try may have had its effect.
        let asked = asked.doubtful.then_some(asked);
        if !error.is_retryable() {
            self.queue.fail(error);
            return Step::Enqueue(asked);
        }
        tracing::warn!(name = self.queue.name.as_str(), %error, "attempt failed");
        Step::Pause(self.next_pause(), asked)
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

/// The clean-up of a place that came too late.
fn after_enqueue(doubtful: bool) -> CleanUp<(Request, Result<Enqueued, Error>)> {
    if doubtful { calls::after_doubtful_enqueue } else { calls::after_enqueue }
}
