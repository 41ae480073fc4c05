//! The queue entries of this client.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32},
    },
};

use lock_core::{Env as _, FencingToken, Mode, Mutex, OwnerId, Request, SystemEnv};
use tokio::sync::Notify;

/// What the name of a client's channel of NOTIFY begins with. The client's digits follow.
pub(crate) const CHANNEL: &str = "leasehold_";

/// All entries of a client, by owner.
#[derive(Debug)]
pub(crate) struct QueueEntries {
    /// Tells this client from others: 32 hexadecimal digits.
    client: String,
    entries: Mutex<HashMap<OwnerId, Arc<QueueEntry>>>,
    /// Signalled when an entry is added: the client then has to listen for messages.
    pub(crate) wanted: Arc<Notify>,
}

#[derive(Debug)]
pub(crate) struct QueueEntry {
    /// The text of the entry in the queue: the owner, the client to notify, `+` if a release may
    /// grant it the lock, `-` if it must ask for the lock itself, or `*` for a reader, and the
    /// owner's label.
    pub(crate) id: String,
    /// Whether the entry is in the server's queue, as far as this client knows.
    pub(crate) queued: AtomicBool,
    /// At most how many entries were before it when the server last answered. The pause after its
    /// next heartbeat grows with this number, so the heartbeat must count for as long.
    pub(crate) others: AtomicU32,
    pub(crate) wake: Notify,
    notice: Mutex<Option<Notice>>,
}

/// What a message suggests to do for an entry. Any role of the database can send such a message, so
/// it grants nothing: the client runs a statement that finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Ask for the lock: it may be this entry's turn.
    Ask,
    /// Confirm a grant that a release may have made.
    Granted,
}

impl QueueEntry {
    /// Takes the last notice, if one arrived since the last call.
    pub(crate) fn take_notice(&self) -> Option<Notice> {
        self.notice.lock().take()
    }

    pub(crate) fn notify(&self, notice: Notice) {
        *self.notice.lock() = Some(notice);
        self.wake.notify_one();
    }
}

impl QueueEntries {
    pub(crate) fn new() -> Self {
        let client = OwnerId::from_bits(SystemEnv.random()).to_string();
        let wanted = Arc::new(Notify::new());
        Self { client, entries: Mutex::default(), wanted }
    }

    /// The channel of NOTIFY on which this client gets its messages. A message is the owner of an
    /// entry.
    pub(crate) fn channel(&self) -> String {
        format!("{CHANNEL}{}", self.client)
    }

    /// Adds an entry here, before the server knows of it.
    pub(crate) fn add(&self, request: &Request) -> Arc<QueueEntry> {
        let Request { owner, label, floor, mode, .. } = request;
        // The client that releases the lock does not know the floor of this request.
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
            notice: Mutex::default(),
        });
        self.entries.lock().insert(*owner, Arc::clone(&entry));
        self.wanted.notify_one();
        entry
    }

    pub(crate) fn of(&self, owner: OwnerId) -> Option<Arc<QueueEntry>> {
        self.entries.lock().get(&owner).cloned()
    }

    /// Removes this entry, but not one that a repeat of its request entered later.
    pub(crate) fn remove(&self, owner: OwnerId, entry: &Arc<QueueEntry>) {
        if let Entry::Occupied(known) = self.entries.lock().entry(owner)
            && Arc::ptr_eq(known.get(), entry)
        {
            known.remove();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.lock().is_empty()
    }

    /// Handles a message. The owner alone means that this entry should ask for the lock; the owner
    /// and `+` mean that the entry was granted the lock. Ignores a message that it does not
    /// understand, or that came too late.
    pub(crate) fn notify(&self, message: &str) {
        let (owner, notice) = match message.strip_suffix('+') {
            Some(owner) => (owner, Notice::Granted),
            None => (message, Notice::Ask),
        };
        if let Some(entry) = owner.parse().ok().and_then(|owner| self.of(owner)) {
            entry.notify(notice);
        }
    }

    /// Wakes all entries, since a message may have been missed.
    pub(crate) fn wake_all(&self) {
        for entry in self.entries.lock().values() {
            entry.wake.notify_one();
        }
    }
}
