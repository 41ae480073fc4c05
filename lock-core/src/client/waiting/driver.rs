//! Drives the one place that a process has in the queue of a name.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{Carried, Queue, follow::Followed};
use crate::{
    Attempt, Blocked, Busy, Enqueued, Env, Error, Grant, Instant, Request, Signal, Turn,
    client::{
        alarm::Alarm,
        call::{Call, CleanUp},
        held::validity,
        inner::{Handle, InFlight, Inner},
        release,
    },
    env::jittered,
};

/// Longest pause between attempts while the store fails.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Shortest pause, whatever the store says: it may count its leases more coarsely than its answers.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// What the driver does next.
enum Step {
    /// Take a place, with this request if an earlier try of it failed.
    Enqueue(Option<Asked>),
    /// Wait in a place.
    Wait(Place),
    /// A guard of this process holds the lock: its release brings the next place.
    Follow(Followed),
    /// Come back later.
    Pause(Duration, Option<Asked>),
}

/// The request of one place, from its first try to its grant or withdrawal.
struct Asked {
    request: Request,
    /// A try of it had no answer: a ghost may yet come, also after the grant was released.
    doubtful: bool,
}

struct Place {
    turn: Box<dyn Turn>,
    asked: Asked,
    /// The last `Busy` answer, and an instant before its attempt: what a push is measured by.
    last: Busy,
    answered_from: Instant,
    ask_at: Instant,
}

impl Place {
    async fn leave(self, inner: &Arc<Inner>) {
        if self.asked.doubtful {
            // `leave` knows of no ghosts.
            drop(self.turn);
            release::abandon(inner, self.asked.request).await;
        } else {
            release::leave(inner, self.turn, self.asked.request).await;
        }
    }
}

pub(super) struct Driver {
    handle: Arc<Handle>,
    queue: Arc<Queue>,
    pause: Duration,
    /// For the next poll.
    polls: Alarm,
    /// For the next look at the guard that is followed: another, since a suspend makes a timer as late as its span
    /// is long.
    looks: Alarm,
    /// Nobody waited any more.
    deserted: bool,
    _in_flight: InFlight<Arc<Inner>>,
}

impl Drop for Driver {
    /// Also by a panic, or where the runtime ends or never was: the waiters then learn that nobody asks for them.
    fn drop(&mut self) {
        if !self.deserted {
            self.handle.waiting.remove(&self.queue);
        }
    }
}

impl Driver {
    /// Made before its task, so that a task that never runs leaves no queue behind either.
    pub(super) fn new(handle: Arc<Handle>, queue: Arc<Queue>) -> Self {
        let in_flight = Inner::count(Arc::clone(&handle.0));
        let (polls, looks) = (Alarm::default(), Alarm::default());
        let (pause, deserted) = (Duration::ZERO, false);
        Self { handle, queue, pause, polls, looks, deserted, _in_flight: in_flight }
    }

    /// Runs until nobody waits.
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
            let inner = &self.handle.0;
            // The place is given up before the queue goes, so that a newcomer's is the only one.
            match step {
                Step::Wait(place) => place.leave(inner).await,
                Step::Enqueue(Some(asked)) | Step::Pause(_, Some(asked)) => {
                    release::abandon(inner, asked.request).await;
                }
                Step::Follow(followed) => followed.give_up(inner).await,
                Step::Enqueue(None) | Step::Pause(_, None) => {}
            }
            self.deserted = self.handle.waiting.remove_deserted(&self.queue);
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
        let inner = Arc::clone(&self.handle.0);
        self.handle.adopt(Box::pin(async move { release::abandon(&inner, request).await }));
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
        let inner = Arc::clone(&self.handle.0);
        let Some(wanted) = self.queue.oldest() else { return Step::Enqueue(asked) };
        let Asked { request, doubtful } = match asked {
            Some(mut asked) => {
                asked.request.sent = inner.env.now();
                asked
            }
            None => Asked { request: inner.request(&self.queue.name, &wanted), doubtful: false },
        };
        let work = release::enqueue(Arc::clone(&inner), request);
        let limit = inner.options.call_timeout;
        match Call::new(&inner, work, after_enqueue(doubtful)).within(limit).await {
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
            Enqueued::Waiting(turn, last) => {
                let answered_from = asked.request.sent;
                let ask_at = self.handle.env.now() + last.retry_after.max(SHORTEST_PAUSE);
                self.queue.block(Blocked::Busy(last.clone()));
                Step::Wait(Place { turn, asked, last, answered_from, ask_at })
            }
            Enqueued::Quarantined(quarantined) => {
                let pause = quarantined.remaining.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
                self.queue.block(Blocked::Quarantined(quarantined));
                Step::Pause(pause, asked.doubtful.then_some(asked))
            }
        }
    }

    /// Waits for a push, for the time of the next poll, or for a change among the waiters.
    async fn wait(&mut self, mut place: Place) -> Step {
        set(&mut self.polls, &*self.handle.env, place.ask_at);
        tokio::select! {
            biased;
            signal = place.turn.next() => match signal {
                Signal::Granted(grant) => self.pushed(grant, place).await,
                Signal::Recheck => self.ask(place).await,
                Signal::Lost(why) => {
                    tracing::debug!(name = %self.queue.name, %why, "place lost");
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
    async fn poll(&mut self, place: Place) -> Step {
        if self.handle.env.now() < place.ask_at {
            return Step::Wait(place);
        }
        self.ask(place).await
    }

    /// Asks again with the place's owner: the poll behind the push, and the place's heartbeat.
    async fn ask(&mut self, mut place: Place) -> Step {
        let inner = Arc::clone(&self.handle.0);
        place.asked.request.sent = inner.env.now();
        let work = release::attempt(Arc::clone(&inner), place.asked.request.clone());
        let call = Call::new(&inner, work, release::after_asking);
        let Some((_, answer)) = call.within(inner.options.call_timeout).await else {
            // The end of the call gives the place up; only a fresh owner is safe.
            return Step::Pause(self.next_pause(), None);
        };
        match answer {
            Ok(Attempt::Granted(grant)) => self.deliver(grant, place.asked.doubtful).await,
            Ok(Attempt::Busy(busy)) => {
                self.pause = Duration::ZERO;
                place.answered_from = place.asked.request.sent;
                place.ask_at = inner.env.now() + busy.retry_after.max(SHORTEST_PAUSE);
                self.queue.block(Blocked::Busy(busy.clone()));
                place.last = busy;
                Step::Wait(place)
            }
            Ok(Attempt::Quarantined(quarantined)) => {
                let pause = quarantined.remaining.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
                place.ask_at = inner.env.now() + pause;
                self.queue.block(Blocked::Quarantined(quarantined));
                Step::Wait(place)
            }
            Err(error) if error.is_retryable() => {
                tracing::warn!(name = %self.queue.name, %error, "attempt failed");
                place.asked.doubtful |= error.is_ambiguous();
                place.ask_at = inner.env.now() + self.next_pause();
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
    async fn pushed(&mut self, mut grant: Grant, place: Place) -> Step {
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
        let inner = Arc::clone(&self.handle.0);
        self.pause = Duration::ZERO;
        let (carry, carried) = oneshot::channel();
        let waiter = {
            let mut state = self.queue.state.lock();
            let waiter = loop {
                match state.waiters.pop_first() {
                    Some((_, waiter)) if waiter.reply.is_closed() => {}
                    oldest => break oldest.map(|(_, waiter)| waiter),
                }
            };
            if waiter.is_some() {
                state.carry = Some((grant.owner, carry));
            }
            waiter
        };
        let Some(waiter) = waiter else {
            release::give_back(&inner, grant, doubtful).await;
            return Step::Enqueue(None);
        };
        let held = match inner.admit(&self.handle, grant, &waiter.wanted, doubtful) {
            Ok(guard) => {
                let held = Arc::clone(guard.held());
                // If the waiter has just gone, its guard is dropped and so released, with the carry.
                drop(waiter.reply.send(Ok(guard)));
                held
            }
            Err(spent) => {
                self.queue.put_back(waiter);
                release::give_back(&inner, spent, doubtful).await;
                return Step::Enqueue(None);
            }
        };
        Step::Follow(Followed::new(&inner, held, carried))
    }

    /// Waits for the release of the guard that this process was given.
    async fn follow(&mut self, mut followed: Followed) -> Step {
        let inner = Arc::clone(&self.handle.0);
        let looks = &mut self.looks;
        set(looks, &*inner.env, followed.look_at);
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
                if followed.is_over(&inner) {
                    followed.give_up(&inner).await;
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
        tracing::warn!(name = %self.queue.name, %error, "attempt failed");
        Step::Pause(self.next_pause(), asked)
    }

    fn next_pause(&mut self) -> Duration {
        self.pause = (self.pause * 2).clamp(Duration::from_millis(5), LONGEST_PAUSE);
        jittered(&*self.handle.env, self.pause)
    }
}

fn set(alarm: &mut Alarm, env: &dyn Env, at: Instant) {
    let now = env.now();
    alarm.set(now, at, || env.sleep(at.since(now)));
}

/// What is done with a place that came too late.
fn after_enqueue(doubtful: bool) -> CleanUp<(Request, Result<Enqueued, Error>)> {
    if doubtful { release::after_doubtful_enqueue } else { release::after_enqueue }
}
