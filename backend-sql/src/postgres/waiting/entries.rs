//! The queue entries of this client.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    hash::Hash,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicBool, AtomicU32},
    },
};

use lock_core::{Env as _, FencingToken, Mode, Mutex, OwnerId, Request, SystemEnv};
use tokio::sync::Notify;

use crate::tunables::REMEMBERED_NAMES;

/// All entries of a client, by owner.
#[derive(Debug)]
pub(crate) struct QueueEntries {
    /// Tells this client from others: 32 hexadecimal digits.
    client: String,
    entries: Mutex<HashMap<OwnerId, Arc<QueueEntry>>>,
    /// That there is one, for whom messages are listened for.
    pub(crate) wanted: Arc<Notify>,
}

#[derive(Debug)]
pub(crate) struct QueueEntry {
    /// As it stands in the queue: the owner, the client that is to be told, `+` if it may be given the
    /// lock or `-` if it is to be told to ask (`*` for a reader), and the owner's label.
    pub(crate) id: String,
    /// Whether the server has put it into the queue, as far as we know.
    pub(crate) queued: AtomicBool,
    /// How many were before it, at most, when the server last told. Its next heartbeat is to be believed for the pause behind
    /// that, which is as long as these are many.
    pub(crate) others: AtomicU32,
    pub(crate) wake: Notify,
    told: Mutex<Option<Told>>,
}

/// What is worth doing for an entry. Each role of the database may send such a message, so it is no grant: the statement
/// that it brings about finds out what is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// To ask: it may be its turn.
    Ask,
    /// To confirm what it may have been given.
    Given,
}

impl QueueEntry {
    /// What it was told since it was looked at last.
    pub(crate) fn take_told(&self) -> Option<Told> {
        self.told.lock().take()
    }

    pub(crate) fn tell(&self, told: Told) {
        *self.told.lock() = Some(told);
        self.wake.notify_one();
    }
}

impl QueueEntries {
    pub(crate) fn new() -> Self {
        let client = OwnerId::from_bits(SystemEnv.random()).to_string();
        let wanted = Arc::new(Notify::new());
        Self { client, entries: Mutex::default(), wanted }
    }

    /// Where this client is told that it is an entry's turn, by a message that is the entry's owner.
    pub(crate) fn channel(&self) -> String {
        format!("leasehold_{}", self.client)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OwnerId, Arc<QueueEntry>>> {
        self.entries.lock()
    }

    /// Enters an entry here, before the server hears of it.
    pub(crate) fn enter(&self, request: &Request) -> Arc<QueueEntry> {
        let Request { owner, label, floor, mode, .. } = request;
        // The client that gives the lock away knows of no floor.
        let how = match mode {
            Mode::Shared => '*',
            _ if *floor == FencingToken::ZERO => '+',
            _ => '-',
        };
        let entry = Arc::new(QueueEntry {
            id: format!("{owner}{}{how}{}", self.client, label.as_str()),
            queued: AtomicBool::new(false),
            others: AtomicU32::new(0),
            wake: Notify::new(),
            told: Mutex::default(),
        });
        self.lock().insert(*owner, Arc::clone(&entry));
        self.wanted.notify_one();
        entry
    }

    pub(crate) fn of(&self, owner: OwnerId) -> Option<Arc<QueueEntry>> {
        self.lock().get(&owner).cloned()
    }

    /// Removes this entry, but not one that a repeat of its request entered later.
    pub(crate) fn remove(&self, owner: OwnerId, entry: &Arc<QueueEntry>) {
        if let Entry::Occupied(known) = self.lock().entry(owner)
            && Arc::ptr_eq(known.get(), entry)
        {
            known.remove();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// It is an entry's turn to ask, or it was given the lock: the message is the owner, or the owner and `+`. One that is
    /// not understood, or came too late, costs nothing.
    pub(crate) fn tell(&self, message: &str) {
        let (owner, told) = match message.strip_suffix('+') {
            Some(owner) => (owner, Told::Given),
            None => (message, Told::Ask),
        };
        if let Some(entry) = owner.parse().ok().and_then(|owner| self.of(owner)) {
            entry.tell(told);
        }
    }

    /// A message may have been missed.
    pub(crate) fn tell_all(&self) {
        for entry in self.lock().values() {
            entry.wake.notify_one();
        }
    }
}

/// A set that forgets everything when it is full. To forget a member is safe: the client then needs one more statement.
#[derive(Debug)]
pub(crate) struct BoundedSet<T>(Mutex<HashSet<T>>);

impl<T> Default for BoundedSet<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone + Eq + Hash> BoundedSet<T> {
    pub(crate) fn insert(&self, member: &T) {
        let mut members = self.0.lock();
        if !members.contains(member) {
            if members.len() >= REMEMBERED_NAMES {
                members.clear();
            }
            members.insert(member.clone());
        }
    }

    pub(crate) fn contains(&self, member: &T) -> bool {
        self.0.lock().contains(member)
    }

    /// Returns whether it was a member.
    pub(crate) fn remove(&self, member: &T) -> bool {
        self.0.lock().remove(member)
    }
}
