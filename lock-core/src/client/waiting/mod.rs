//! Waiting: the waiters of one process share one place per name in the store's queue (L3, L4).

mod driver;
mod follow;

use std::{
    collections::{BTreeMap, HashMap},
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

/// The names that somebody in this process waits for, or makes the first attempt for.
#[derive(Default)]
pub(crate) struct Waiting {
    queues: Lock<HashMap<LockName, Arc<Queue>>>,
    /// How many there are, so that an uncontended acquire need not lock the map.
    names: AtomicUsize,
    ids: AtomicU64,
}

/// The waiters of one name.
pub(crate) struct Queue {
    name: LockName,
    state: Lock<QueueState>,
    changed: Notify,
}

#[derive(Default)]
struct QueueState {
    /// By their ids, which are in the order of their calls.
    waiters: BTreeMap<u64, Waiter>,
    /// Somebody makes the first attempt, and all others wait for its end.
    first: bool,
    /// There is a driver.
    driven: bool,
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
            state.waiters.remove(&self.id)
        };
        if left.is_some() {
            self.queue.changed.notify_one();
        }
    }
}

/// The right to make the first attempt for a name, before any place is taken. Until it is dropped, all others of
/// this process that ask for the name wait behind it.
pub(crate) struct First<'a> {
    handle: &'a Handle,
    /// `None` where nobody can come meanwhile.
    queue: Option<(Arc<Queue>, u64)>,
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        let Some((queue, _)) = &self.queue else { return };
        let waiting = &self.handle.waiting;
        let mut queues = waiting.queues.lock();
        let driven = {
            let mut state = queue.state.lock();
            state.first = false;
            state.driven
        };
        if driven {
            queue.changed.notify_one();
        } else {
            waiting.remove_entry(&mut queues, queue);
        }
    }
}

impl Waiting {
    /// Whether somebody in this process waits for `name`, or makes the first attempt for it, already.
    fn has(&self, name: &LockName) -> bool {
        self.names.load(Ordering::Acquire) > 0 && self.queues.lock().contains_key(name)
    }

    /// The right to make the first attempt for `name`; `None` where somebody in this process waits for it, or makes
    /// that attempt, already.
    pub(crate) fn first<'a>(handle: &'a Handle, name: &LockName) -> Option<First<'a>> {
        let waiting = &handle.waiting;
        if handle.backend.answers_at_once() {
            // The attempt is over before anybody else runs.
            return (!waiting.has(name)).then_some(First { handle, queue: None });
        }
        let mut queues = waiting.queues.lock();
        if queues.contains_key(name) {
            return None;
        }
        let queue = Arc::clone(waiting.entry(&mut queues, name));
        queue.state.lock().first = true;
        Some(First { handle, queue: Some((queue, waiting.next_id())) })
    }

    /// Joins the queue of `name`: behind all that are there, but with the first attempt's right before all that came
    /// since. Until the store answers the queue, what stands in the way is `blocked`.
    pub(crate) fn join(
        handle: &Arc<Handle>,
        name: &LockName,
        wanted: Wanted,
        blocked: Option<Blocked>,
        first: Option<First<'_>>,
    ) -> Result<Ticket, Error> {
        let waiting = &handle.waiting;
        let (sender, reply) = oneshot::channel();
        let (queue, id, fresh) = {
            let mut queues = waiting.queues.lock();
            handle.check_open()?;
            let early = first.as_ref().and_then(|first| first.queue.as_ref());
            let id = early.map_or_else(|| waiting.next_id(), |(_, id)| *id);
            let queue = waiting.entry(&mut queues, name);
            let mut state = queue.state.lock();
            state.waiters.insert(id, Waiter { id, wanted, reply: sender });
            state.blocked = state.blocked.take().or(blocked);
            let fresh = !std::mem::replace(&mut state.driven, true);
            drop(state);
            (Arc::clone(queue), id, fresh)
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
            (reply, state.waiters.first_key_value()?.1.wanted)
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

    /// Lets the driver of a queue go that nobody waits in; `false` if somebody does.
    fn remove_deserted(&self, queue: &Arc<Queue>) -> bool {
        let mut queues = self.queues.lock();
        let first = {
            let mut state = queue.state.lock();
            if !state.waiters.is_empty() {
                return false;
            }
            state.driven = false;
            state.first
        };
        if !first {
            self.remove_entry(&mut queues, queue);
        }
        true
    }

    /// Removes a queue whose driver has ended, with whoever still waits.
    fn remove(&self, queue: &Arc<Queue>) {
        self.remove_entry(&mut self.queues.lock(), queue);
        let waiters = std::mem::take(&mut queue.state.lock().waiters);
        drop(waiters);
    }

    /// The order of calls where it is drawn under the mutex of the queues.
    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    fn entry<'q>(
        &self,
        queues: &'q mut HashMap<LockName, Arc<Queue>>,
        name: &LockName,
    ) -> &'q Arc<Queue> {
        queues.entry(name.clone()).or_insert_with(|| {
            self.names.fetch_add(1, Ordering::AcqRel);
            let (state, changed) = (Lock::default(), Notify::new());
            Arc::new(Queue { name: name.clone(), state, changed })
        })
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
        self.state.lock().waiters.first_key_value().map(|(_, waiter)| waiter.wanted)
    }

    fn block(&self, blocked: Blocked) {
        self.state.lock().blocked = Some(blocked);
    }

    /// Puts a waiter back to where it was, whose grant came too late.
    fn put_back(&self, waiter: Waiter) {
        let mut state = self.state.lock();
        state.carry = None;
        state.waiters.insert(waiter.id, waiter);
    }

    fn fail(&self, error: &Error) {
        let waiters = std::mem::take(&mut self.state.lock().waiters);
        for waiter in waiters.into_values() {
            let _ = waiter.reply.send(Err(error.clone()));
        }
    }
}
