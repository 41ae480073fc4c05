//! Waiting: the waiters of one process share one place per name in the store's queue (L3, L4).

mod driver;
mod follow;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use tokio::sync::{Notify, oneshot};

use self::driver::Driver;
use super::{
    guard::Guard,
    inner::{Handle, Inner, Lock},
    options::Wanted,
    release,
};
use crate::{Blocked, Enqueued, Error, ErrorKind, Grant, LockName, OwnerId, Request};

/// The names that somebody in this process waits for.
#[derive(Default)]
pub(crate) struct Waiting {
    queues: Lock<HashMap<LockName, Arc<Queue>>>,
    /// How many there are, so that an uncontended acquire need not lock the map.
    names: AtomicUsize,
    ids: AtomicU64,
}

/// The waiters of one name, oldest first.
pub(crate) struct Queue {
    name: LockName,
    state: Lock<QueueState>,
    changed: Notify,
}

#[derive(Default)]
struct QueueState {
    waiters: VecDeque<Waiter>,
    /// The grant that this process holds now, and who is to hear what its release carried.
    carry: Option<(OwnerId, oneshot::Sender<Carried>)>,
    blocked: Option<Blocked>,
    poked: bool,
}

struct Waiter {
    id: u64,
    wanted: Wanted,
    reply: oneshot::Sender<Result<Guard, Error>>,
}

/// The next request of this process, which a release took along.
pub(crate) struct Carried {
    request: Request,
    /// The store's answer; `None` where the backend does not carry it.
    answer: Option<Enqueued>,
    /// The release was tried more than once.
    doubtful: bool,
}

impl Carried {
    /// Gives up what nobody waits for any more.
    pub(crate) async fn clean_up(self, inner: &Arc<Inner>) {
        let Self { request, answer, doubtful } = self;
        if let Some(answer) = answer.filter(|_| !doubtful) {
            release::after_enqueue(Arc::clone(inner), (request, Ok(answer))).await;
        } else if doubtful {
            release::abandon(inner, request).await;
        }
    }
}

/// A request that a release takes along.
pub(crate) struct Carry {
    pub(crate) request: Request,
    reply: oneshot::Sender<Carried>,
}

impl Carry {
    /// Hands the answer to the waiters. If they have gone, it comes back to be cleaned up.
    pub(crate) fn answer(self, answer: Option<Enqueued>, doubtful: bool) -> Option<Carried> {
        self.reply.send(Carried { request: self.request, answer, doubtful }).err()
    }

    /// Lets the waiters ask for themselves.
    pub(crate) fn give_up(self) -> Request {
        self.request
    }
}

/// A waiter's stake in a queue; dropping it leaves.
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    id: u64,
    pub(crate) reply: oneshot::Receiver<Result<Guard, Error>>,
}

impl Ticket {
    /// What stands in the way, as last heard.
    pub(crate) fn blocked(&self) -> Option<Blocked> {
        self.queue.state.lock().blocked.clone()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let left = {
            let mut state = self.queue.state.lock();
            let at = state.waiters.iter().position(|waiter| waiter.id == self.id);
            at.and_then(|at| state.waiters.remove(at))
        };
        if left.is_some() {
            self.queue.changed.notify_one();
        }
    }
}

impl Waiting {
    /// Whether somebody in this process waits for `name` already.
    pub(crate) fn has(&self, name: &LockName) -> bool {
        self.names.load(Ordering::Acquire) > 0 && self.queues.lock().contains_key(name)
    }

    /// Joins the queue of `name`, as its youngest waiter. Until the store answers the queue, what
    /// stands in the way is `blocked`.
    pub(crate) fn join(
        handle: &Arc<Handle>,
        name: &LockName,
        wanted: Wanted,
        blocked: Option<Blocked>,
    ) -> Result<Ticket, Error> {
        let waiting = &handle.waiting;
        let (sender, reply) = oneshot::channel();
        let id = waiting.ids.fetch_add(1, Ordering::Relaxed);
        let waiter = Waiter { id, wanted, reply: sender };
        let (queue, fresh) = {
            let mut queues = waiting.queues.lock();
            handle.check_open()?;
            let mut fresh = false;
            let queue = queues.entry(name.clone()).or_insert_with(|| {
                fresh = true;
                waiting.names.fetch_add(1, Ordering::AcqRel);
                Arc::new(Queue {
                    name: name.clone(),
                    state: Lock::default(),
                    changed: Notify::new(),
                })
            });
            let mut state = queue.state.lock();
            state.waiters.push_back(waiter);
            state.blocked = state.blocked.take().or(blocked);
            drop(state);
            (Arc::clone(queue), fresh)
        };
        let ticket = Ticket { queue: Arc::clone(&queue), id, reply };
        if fresh {
            let driver = Driver::new(Arc::clone(handle), queue);
            handle.env.spawn(Box::pin(driver.run())).map_err(|error| {
                Error::new(ErrorKind::Config, "waiting needs a tokio runtime").with_source(error)
            })?;
        }
        Ok(ticket)
    }

    /// If `grant` was given to this process and others here wait for the name: their next request,
    /// for the release to take along.
    pub(crate) fn carry(&self, inner: &Inner, grant: &Grant) -> Option<Carry> {
        let queue = self.queue(&grant.name)?;
        let (reply, wanted) = {
            let mut state = queue.state.lock();
            if state.carry.as_ref().is_none_or(|(owner, _)| *owner != grant.owner) {
                return None;
            }
            // Taken in any case: dropping the sender tells the driver to ask for itself.
            let (_, reply) = state.carry.take()?;
            (reply, state.waiters.front()?.wanted)
        };
        let request = inner.request(&grant.name, &wanted);
        Some(Carry { request, reply })
    }

    /// The grant has gone without a release.
    pub(crate) fn forget_carry(&self, grant: &Grant) {
        if let Some(queue) = self.queue(&grant.name) {
            let mut state = queue.state.lock();
            if state.carry.as_ref().is_some_and(|(owner, _)| *owner == grant.owner) {
                state.carry = None;
            }
        }
    }

    /// A lock of this process was released: whoever waits here may ask at once.
    pub(crate) fn poke(&self, name: &LockName) {
        if let Some(queue) = self.queue(name) {
            queue.state.lock().poked = true;
            queue.changed.notify_one();
        }
    }

    /// Turns every waiter away.
    pub(crate) fn refuse_all(&self, error: &Error) {
        let mut queues: Vec<_> = self.queues.lock().values().cloned().collect();
        queues.sort_by(|one, two| one.name.cmp(&two.name));
        for queue in queues {
            queue.fail(error);
            queue.changed.notify_one();
        }
    }

    fn queue(&self, name: &LockName) -> Option<Arc<Queue>> {
        if self.names.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.queues.lock().get(name).cloned()
    }

    /// Removes a queue that nobody waits in; `false` if somebody does.
    fn remove_deserted(&self, queue: &Arc<Queue>) -> bool {
        let mut queues = self.queues.lock();
        if !queue.state.lock().waiters.is_empty() {
            return false;
        }
        self.remove_entry(&mut queues, queue);
        true
    }

    /// Removes a queue whose driver has ended, with whoever still waits.
    fn remove(&self, queue: &Arc<Queue>) {
        self.remove_entry(&mut self.queues.lock(), queue);
        let waiters = std::mem::take(&mut queue.state.lock().waiters);
        drop(waiters);
    }

    fn remove_entry(&self, queues: &mut HashMap<LockName, Arc<Queue>>, queue: &Arc<Queue>) {
        if queues.get(&queue.name).is_some_and(|entry| Arc::ptr_eq(entry, queue)) {
            queues.remove(&queue.name);
            self.names.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Queue {
    fn oldest(&self) -> Option<Wanted> {
        self.state.lock().waiters.front().map(|waiter| waiter.wanted)
    }

    fn block(&self, blocked: Blocked) {
        self.state.lock().blocked = Some(blocked);
    }

    /// Puts a waiter back to the front whose grant came too late.
    fn put_back(&self, waiter: Waiter) {
        let mut state = self.state.lock();
        state.carry = None;
        state.waiters.push_front(waiter);
    }

    fn fail(&self, error: &Error) {
        let waiters = std::mem::take(&mut self.state.lock().waiters);
        for waiter in waiters {
            let _ = waiter.reply.send(Err(error.clone()));
        }
    }
}
