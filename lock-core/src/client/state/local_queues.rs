//! The tasks of this process that wait for a lock: a queue per name, which shares one place in the store's queue
//! (L3, L4).

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use tokio::sync::{Notify, oneshot};

use super::{held::Held, options::Wanted};
use crate::{Blocked, Enqueued, Error, Grant, LockName, OwnerId, Request, sync::Mutex};

/// The names that a task of this process waits for, or makes the first attempt for: of locks of one mode.
#[derive(Default)]
pub(crate) struct LocalQueues {
    queues: Mutex<HashMap<LockName, Arc<LocalQueue>>>,
    /// How many there are, so that an uncontended acquire need not lock the map.
    names: AtomicUsize,
    ids: AtomicU64,
}

/// Those that wait for one name.
pub(crate) struct LocalQueue {
    pub(crate) name: LockName,
    pub(crate) state: Mutex<QueueState>,
    pub(crate) changed: Notify,
}

#[derive(Default)]
pub(crate) struct QueueState {
    /// By their ids, which are in the order of their calls.
    entries: BTreeMap<u64, LocalEntry>,
    /// A task makes the first attempt, and all others wait for its end.
    pub(crate) first: bool,
    /// There is a worker.
    worked: bool,
    /// The grant that this process holds now, and where the answer goes that its release brings.
    pub(crate) carry: Option<(OwnerId, oneshot::Sender<Carried>)>,
    blocked: Option<Blocked>,
    pub(crate) poked: bool,
}

/// The entry of a task that waits.
pub(crate) struct LocalEntry {
    id: u64,
    pub(crate) wanted: Wanted,
    pub(crate) reply: oneshot::Sender<Result<Arc<Held>, Error>>,
}

/// A new entry, as the task sees it that waits.
pub(crate) struct Joined {
    pub(crate) queue: Arc<LocalQueue>,
    pub(crate) id: u64,
    pub(crate) reply: oneshot::Receiver<Result<Arc<Held>, Error>>,
    /// Whether the queue has no worker yet: the caller starts it.
    pub(crate) fresh: bool,
}

/// The next request of this process, which a release took along.
pub(crate) struct Carried {
    pub(crate) request: Request,
    /// The store's answer; `None` where the backend does not carry it.
    pub(crate) answer: Option<Enqueued>,
    /// The release was tried more than once.
    pub(crate) doubtful: bool,
}

/// The right to make the first attempt for a name, before any place is taken. Until it is dropped, all others of
/// this process that ask for the name wait behind it.
pub(crate) struct First<'a> {
    queues: &'a LocalQueues,
    /// `None` where no task can come meanwhile.
    queue: Option<(Arc<LocalQueue>, u64)>,
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        let Some((queue, _)) = &self.queue else { return };
        let mut queues = self.queues.queues.lock();
        let worked = {
            let mut state = queue.state.lock();
            state.first = false;
            state.worked
        };
        if worked {
            queue.changed.notify_one();
        } else {
            self.queues.remove_queue(&mut queues, queue);
        }
    }
}

impl LocalQueues {
    /// Whether a task of this process waits for `name`, or makes the first attempt for it, already.
    fn has(&self, name: &LockName) -> bool {
        self.names.load(Ordering::Acquire) > 0 && self.queues.lock().contains_key(name)
    }

    /// The right to make the first attempt for `name`; `None` where a task of this process waits for it, or makes
    /// that attempt, already. `at_once`: the attempt is over before any other task runs.
    pub(crate) fn first(&self, name: &LockName, at_once: bool) -> Option<First<'_>> {
        if at_once {
            return (!self.has(name)).then_some(First { queues: self, queue: None });
        }
        let mut queues = self.queues.lock();
        if queues.contains_key(name) {
            return None;
        }
        let queue = Arc::clone(self.entry(&mut queues, name));
        queue.state.lock().first = true;
        Some(First { queues: self, queue: Some((queue, self.next_id())) })
    }

    /// Joins the queue of `name`: behind all that are there, but with the first attempt's right before all that came
    /// since. Until the store answers the queue, what stands in the way is `blocked`. `check` decides, under the
    /// mutex of all queues, whether waiting is still allowed.
    pub(crate) fn join(
        &self,
        name: &LockName,
        wanted: Wanted,
        blocked: Option<Blocked>,
        first: Option<First<'_>>,
        check: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Joined, Error> {
        let (sender, reply) = oneshot::channel();
        let mut queues = self.queues.lock();
        check()?;
        let early = first.as_ref().and_then(|first| first.queue.as_ref());
        let id = early.map_or_else(|| self.next_id(), |(_, id)| *id);
        let queue = Arc::clone(self.entry(&mut queues, name));
        let fresh = {
            let mut state = queue.state.lock();
            state.entries.insert(id, LocalEntry { id, wanted, reply: sender });
            state.blocked = state.blocked.take().or(blocked);
            !std::mem::replace(&mut state.worked, true)
        };
        // Not under the mutex: dropping `first` takes it.
        drop(queues);
        Ok(Joined { queue, id, reply, fresh })
    }

    /// If `grant` was given to this process and others here wait for the name: what the oldest of them wants, and
    /// where the answer to it goes, for the release to take along.
    pub(crate) fn carry(&self, grant: &Grant) -> Option<(Wanted, oneshot::Sender<Carried>)> {
        let queue = self.queue(&grant.name)?;
        let mut state = queue.state.lock();
        if state.carry.as_ref().is_none_or(|(owner, _)| *owner != grant.owner) {
            return None;
        }
        // Taken in any case: dropping the sender tells the worker to ask for itself.
        let (_, reply) = state.carry.take()?;
        Some((state.entries.first_key_value()?.1.wanted, reply))
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

    /// A lock of this process was released: those that wait here may ask at once.
    pub(crate) fn poke(&self, name: &LockName) {
        if let Some(queue) = self.queue(name) {
            queue.state.lock().poked = true;
            queue.changed.notify_one();
        }
    }

    /// Turns all away that wait.
    pub(crate) fn refuse_all(&self, error: &Error) {
        let mut queues: Vec<_> = self.queues.lock().values().cloned().collect();
        queues.sort_by(|one, two| one.name.cmp(&two.name));
        for queue in queues {
            queue.fail(error);
            queue.changed.notify_one();
        }
    }

    fn queue(&self, name: &LockName) -> Option<Arc<LocalQueue>> {
        if self.names.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.queues.lock().get(name).cloned()
    }

    /// Lets the worker of a queue go in which no task waits; `false` if one does.
    pub(crate) fn remove_deserted(&self, queue: &Arc<LocalQueue>) -> bool {
        let mut queues = self.queues.lock();
        let first = {
            let mut state = queue.state.lock();
            if !state.entries.is_empty() {
                return false;
            }
            state.worked = false;
            state.first
        };
        if !first {
            self.remove_queue(&mut queues, queue);
        }
        true
    }

    /// Removes a queue whose worker has ended, with all that still wait.
    pub(crate) fn remove(&self, queue: &Arc<LocalQueue>) {
        self.remove_queue(&mut self.queues.lock(), queue);
        let entries = std::mem::take(&mut queue.state.lock().entries);
        drop(entries);
    }

    /// The order of calls where it is drawn under the mutex of the queues.
    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    fn entry<'q>(
        &self,
        queues: &'q mut HashMap<LockName, Arc<LocalQueue>>,
        name: &LockName,
    ) -> &'q Arc<LocalQueue> {
        queues.entry(name.clone()).or_insert_with(|| {
            self.names.fetch_add(1, Ordering::AcqRel);
            let (state, changed) = (Mutex::default(), Notify::new());
            Arc::new(LocalQueue { name: name.clone(), state, changed })
        })
    }

    fn remove_queue(
        &self,
        queues: &mut HashMap<LockName, Arc<LocalQueue>>,
        queue: &Arc<LocalQueue>,
    ) {
        if queues.get(&queue.name).is_some_and(|found| Arc::ptr_eq(found, queue)) {
            queues.remove(&queue.name);
            self.names.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl LocalQueue {
    pub(crate) fn oldest(&self) -> Option<Wanted> {
        self.state.lock().entries.first_key_value().map(|(_, entry)| entry.wanted)
    }

    /// Takes the oldest entry that is still waited in; the grant of this owner brings an answer to `carry` when it is
    /// released.
    pub(crate) fn take_oldest(
        &self,
        carry: Option<(OwnerId, oneshot::Sender<Carried>)>,
    ) -> Option<LocalEntry> {
        let mut state = self.state.lock();
        while let Some((_, entry)) = state.entries.pop_first() {
            if !entry.reply.is_closed() {
                state.carry = carry;
                return Some(entry);
            }
        }
        None
    }

    /// Removes the entry of a task that waits no longer.
    pub(crate) fn leave(&self, id: u64) {
        let left = self.state.lock().entries.remove(&id);
        if left.is_some() {
            self.changed.notify_one();
        }
    }

    pub(crate) fn block(&self, blocked: Blocked) {
        self.state.lock().blocked = Some(blocked);
    }

    /// What stands in the way, as last heard.
    pub(crate) fn blocked(&self) -> Option<Blocked> {
        self.state.lock().blocked.clone()
    }

    /// Puts an entry back to where it was, whose grant came too late.
    pub(crate) fn put_back(&self, entry: LocalEntry) {
        let mut state = self.state.lock();
        state.carry = None;
        state.entries.insert(entry.id, entry);
    }

    pub(crate) fn fail(&self, error: &Error) {
        let entries = std::mem::take(&mut self.state.lock().entries);
        for entry in entries.into_values() {
            let _ = entry.reply.send(Err(error.clone()));
        }
    }
}
