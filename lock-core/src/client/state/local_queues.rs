//! The tasks of this process that wait for a lock: one local queue per name, with one entry in the
//! store's queue (L3, L4).

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

/// The local queues of all names for which a task of this process waits or makes the first attempt,
/// for locks of one mode.
#[derive(Default)]
pub(crate) struct LocalQueues {
    queues: Mutex<HashMap<LockName, Arc<LocalQueue>>>,
    /// The number of queues, so that the acquire of a free lock need not lock the map.
    names: AtomicUsize,
    ids: AtomicU64,
}

/// The tasks that wait for one name.
pub(crate) struct LocalQueue {
    pub(crate) name: LockName,
    pub(crate) state: Mutex<QueueState>,
    pub(crate) changed: Notify,
}

#[derive(Default)]
pub(crate) struct QueueState {
    /// By id, which is the order of the calls.
    entries: BTreeMap<u64, LocalEntry>,
    /// Whether a task makes the first attempt. All others wait for its end.
    pub(crate) first_attempt: bool,
    /// Whether there is a queue worker.
    has_worker: bool,
    /// The owner that this process holds the lock with, and the channel for the answer that its
    /// release carries back.
    pub(crate) carry: Option<(OwnerId, oneshot::Sender<Carried>)>,
    /// What blocks the lock, as last reported by the store.
    blocked: Option<Blocked>,
    /// Whether the worker should poll now.
    pub(crate) poll_requested: bool,
}

/// The entry of a waiting task.
pub(crate) struct LocalEntry {
    id: u64,
    pub(crate) wanted: Wanted,
    pub(crate) reply: oneshot::Sender<Result<Arc<Held>, Error>>,
}

/// A new entry, on the side of the waiting task.
pub(crate) struct Joined {
    pub(crate) queue: Arc<LocalQueue>,
    pub(crate) id: u64,
    pub(crate) reply: oneshot::Receiver<Result<Arc<Held>, Error>>,
    /// Whether the queue has no worker yet. The caller must then start one.
    pub(crate) needs_worker: bool,
}

/// The next request of this process, which a release has carried.
pub(crate) struct Carried {
    pub(crate) request: Request,
    /// The store's answer; `None` if the backend does not carry requests.
    pub(crate) answer: Option<Enqueued>,
    /// Whether the release was sent more than once.
    pub(crate) doubtful: bool,
}

/// The right to make the first attempt for a name, before there is an entry in the store. Until it
/// is dropped, all other tasks of this process that acquire the name wait behind it.
pub(crate) struct FirstAttempt<'a> {
    queues: &'a LocalQueues,
    /// The queue and the id of this task; `None` if no other task can run during the attempt.
    queue: Option<(Arc<LocalQueue>, u64)>,
}

/// The position at which a task joins a queue.
pub(crate) enum Place<'a> {
    Last,
    /// A task that made the first attempt goes before all that came since.
    First(FirstAttempt<'a>),
    /// The position of this id, which the task had before the worker ended.
    Again(u64),
}

impl Drop for FirstAttempt<'_> {
    fn drop(&mut self) {
        let Some((queue, _)) = &self.queue else { return };
        let mut queues = self.queues.queues.lock();
        let has_worker = {
            let mut state = queue.state.lock();
            state.first_attempt = false;
            state.has_worker
        };
        if has_worker {
            queue.changed.notify_one();
        } else {
            self.queues.remove_queue(&mut queues, queue);
        }
    }
}

impl LocalQueues {
    /// Whether a task of this process already waits for `name`, or makes the first attempt.
    fn has(&self, name: &LockName) -> bool {
        self.names.load(Ordering::Acquire) > 0 && self.queues.lock().contains_key(name)
    }

    /// The right to make the first attempt for `name`; `None` if a task of this process already
    /// waits for it, or makes that attempt. `at_once`: the attempt ends before any other task runs.
    pub(crate) fn first_attempt(&self, name: &LockName, at_once: bool) -> Option<FirstAttempt<'_>> {
        if at_once {
            return (!self.has(name)).then_some(FirstAttempt { queues: self, queue: None });
        }
        let mut queues = self.queues.lock();
        if queues.contains_key(name) {
            return None;
        }
        let queue = Arc::clone(self.entry(&mut queues, name));
        queue.state.lock().first_attempt = true;
        Some(FirstAttempt { queues: self, queue: Some((queue, self.next_id())) })
    }

    /// Joins the queue of `name`. Until the store answers the worker, `blocked` is what blocks the
    /// lock. `check` decides, under the mutex of all queues, whether waiting is still allowed.
    pub(crate) fn join(
        &self,
        name: &LockName,
        wanted: Wanted,
        blocked: Option<Blocked>,
        place: Place<'_>,
        check: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Joined, Error> {
        let (sender, reply) = oneshot::channel();
        let mut queues = self.queues.lock();
        check()?;
        let id = match &place {
            Place::First(FirstAttempt { queue: Some((_, id)), .. }) | Place::Again(id) => *id,
            Place::First(_) | Place::Last => self.next_id(),
        };
        let queue = Arc::clone(self.entry(&mut queues, name));
        let needs_worker = {
            let mut state = queue.state.lock();
            state.entries.insert(id, LocalEntry { id, wanted, reply: sender });
            state.blocked = state.blocked.take().or(blocked);
            !std::mem::replace(&mut state.has_worker, true)
        };
        // Before the end of this function: dropping the first attempt locks the mutex.
        drop(queues);
        Ok(Joined { queue, id, reply, needs_worker })
    }

    /// What the release of `grant` should carry, if other tasks of this process wait for the name:
    /// the options of the oldest one, and the channel for the answer.
    pub(crate) fn carry(&self, grant: &Grant) -> Option<(Wanted, oneshot::Sender<Carried>)> {
        let queue = self.queue(&grant.name)?;
        let mut state = queue.state.lock();
        if state.carry.as_ref().is_none_or(|(owner, _)| *owner != grant.owner) {
            return None;
        }
        // Taken in any case: if the sender is dropped, the worker makes its own request.
        let (_, reply) = state.carry.take()?;
        Some((state.entries.first_key_value()?.1.wanted, reply))
    }

    /// The grant has ended without a release.
    pub(crate) fn forget_carry(&self, grant: &Grant) {
        if let Some(queue) = self.queue(&grant.name) {
            let mut state = queue.state.lock();
            if state.carry.as_ref().is_some_and(|(owner, _)| *owner == grant.owner) {
                state.carry = None;
            }
        }
    }

    /// Makes the worker of `name` poll now, after a release by this process.
    pub(crate) fn request_poll(&self, name: &LockName) {
        if let Some(queue) = self.queue(name) {
            queue.state.lock().poll_requested = true;
            queue.changed.notify_one();
        }
    }

    /// Ends all waits with `error`.
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

    /// Ends the worker of a queue without waiting tasks; `false` if a task waits.
    pub(crate) fn remove_idle(&self, queue: &Arc<LocalQueue>) -> bool {
        let mut queues = self.queues.lock();
        let first = {
            let mut state = queue.state.lock();
            if !state.entries.is_empty() {
                return false;
            }
            state.has_worker = false;
            state.first_attempt
        };
        if !first {
            self.remove_queue(&mut queues, queue);
        }
        true
    }

    /// Removes a queue whose worker has ended, with all waiting tasks.
    pub(crate) fn remove(&self, queue: &Arc<LocalQueue>) {
        self.remove_queue(&mut self.queues.lock(), queue);
        let entries = std::mem::take(&mut queue.state.lock().entries);
        drop(entries);
    }

    /// The next id. Ids are in the order of the calls, because they are drawn under the mutex of
    /// the queues.
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
    /// The options of the oldest task.
    pub(crate) fn oldest(&self) -> Option<Wanted> {
        self.state.lock().entries.first_key_value().map(|(_, entry)| entry.wanted)
    }

    /// Removes and returns the oldest entry whose task still waits. When the owner in `carry`
    /// releases the lock, its answer goes to the sender there.
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

    /// Removes the entry of a task that no longer waits.
    pub(crate) fn leave(&self, id: u64) {
        let left = self.state.lock().entries.remove(&id);
        if left.is_some() {
            self.changed.notify_one();
        }
    }

    pub(crate) fn set_blocked(&self, blocked: Blocked) {
        self.state.lock().blocked = Some(blocked);
    }

    /// What blocks the lock, as last reported by the store.
    pub(crate) fn blocked(&self) -> Option<Blocked> {
        self.state.lock().blocked.clone()
    }

    /// Puts an entry back to its old position, because its grant came too late.
    pub(crate) fn put_back(&self, entry: LocalEntry) {
        let mut state = self.state.lock();
        state.carry = None;
        state.entries.insert(entry.id, entry);
    }

    /// Ends the waits of all tasks with `error`.
    pub(crate) fn fail(&self, error: &Error) {
        let entries = std::mem::take(&mut self.state.lock().entries);
        for entry in entries.into_values() {
            let _ = entry.reply.send(Err(error.clone()));
        }
    }
}
