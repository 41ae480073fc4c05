//! Queue entries: their values, entries as they were read, and the state of a grant.

use std::{sync::Arc, time::Duration};

use etcd_client::{Compare, CompareOp, GetResponse, KeyValue};
use lock_core::{FencingToken, Holder, Mode, Mutex, OwnerId, OwnerLabel, Request};
use serde::{Deserialize, Serialize};

use super::{layout::mode_of, reserved::ReservedKey};
use crate::rpc::Lease;

/// The value of a queue entry that leasehold wrote. Entries of etcd's own tools have another value,
/// mostly an empty one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueueEntry {
    pub(crate) owner: OwnerId,
    pub(crate) label: OwnerLabel,
    /// The offset of the token, as it was in the settings when the grant was made. Later raises do
    /// not change it.
    pub(crate) offset: i64,
    /// The lock was granted to it. Otherwise it waits, or its client has not noticed its turn yet.
    pub(crate) granted: bool,
    /// It was released, and is kept for a minimum hold.
    pub(crate) kept: bool,
}

impl QueueEntry {
    pub(crate) fn new(request: &Request, offset: i64, granted: bool) -> Self {
        let (owner, label) = (request.owner, request.label.clone());
        Self { owner, label, offset, granted, kept: false }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // This struct can always be written as JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// An entry as it was read from etcd.
#[derive(Clone, Debug)]
pub(crate) struct StoredEntry {
    /// UTF-8, unless another program made it.
    pub(crate) key: Vec<u8>,
    /// The lease that the key lives by.
    pub(crate) lease: i64,
    pub(crate) created: i64,
    pub(crate) modified: i64,
    /// `None` for an entry of etcd's own tools, and for a value that cannot be parsed.
    pub(crate) entry: Option<QueueEntry>,
}

impl StoredEntry {
    pub(crate) fn read(pair: &KeyValue) -> Self {
        Self {
            key: pair.key().to_vec(),
            lease: pair.lease(),
            created: pair.create_revision(),
            modified: pair.mod_revision(),
            entry: serde_json::from_slice(pair.value()).ok(),
        }
    }

    /// The first entry of an answer.
    pub(crate) fn from_get(got: &GetResponse) -> Option<Self> {
        got.kvs().first().map(Self::read)
    }

    /// Its key and create revision, for the waiter that follows it. If the key is not UTF-8, that
    /// waiter notices its deletion only by polling.
    pub(crate) fn to_follow(&self) -> (String, i64) {
        (String::from_utf8_lossy(&self.key).into_owned(), self.created)
    }

    /// The token of its grant.
    pub(crate) fn token(&self) -> FencingToken {
        let offset = self.entry.as_ref().map_or(0, |entry| entry.offset);
        token(offset, self.created)
    }

    pub(crate) fn belongs_to(&self, owner: OwnerId) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.owner == owner)
    }

    pub(crate) fn mode(&self) -> Mode {
        mode_of(&self.key)
    }

    /// Whether it certainly holds the lock as a reader. A reader that had to wait may hold the lock
    /// without this mark.
    pub(crate) fn is_granted_reader(&self) -> bool {
        self.mode() == Mode::Shared && self.entry.as_ref().is_some_and(|entry| entry.granted)
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.kept)
    }

    /// Its value, if its release may delete it and return its lease: it was granted at once, and
    /// nobody has written it since.
    pub(crate) fn returnable(&self) -> Option<&QueueEntry> {
        let entry = self.entry.as_ref().filter(|entry| entry.granted && !entry.kept);
        entry.filter(|_| self.modified == self.created && self.mode() == Mode::Exclusive)
    }

    /// The holder, with the remaining time of its lease. Entries of other tools show only the
    /// number of their lease. An entry whose value cannot be parsed holds the lock all the same.
    pub(crate) fn holder(&self, remaining: Duration) -> Option<Holder> {
        if let Some(QueueEntry { owner, label, .. }) = &self.entry {
            return Some(match self.mode() {
                Mode::Shared => Holder::readers(label.clone(), remaining),
                _ => Holder::new(*owner, label.clone(), remaining),
            });
        }
        let lease = self.lease;
        let label = match lease {
            0 => "a key without a lease, which ends by `release --force` only".to_owned(),
            lease => format!("etcd lease {lease:x}"),
        };
        let label = OwnerLabel::new(label).ok()?;
        Some(Holder::new(OwnerId::from_bits(lease as u128), label, remaining))
    }
}

/// The entries of a name that hold the lock: the first one and, if it is a reader, all readers
/// before the first writer.
pub(crate) fn holders(mut entries: Vec<StoredEntry>) -> Vec<StoredEntry> {
    entries.sort_by_key(|seen| seen.created);
    let readers = entries.iter().take_while(|seen| seen.mode() == Mode::Shared).count();
    entries.truncate(readers.max(1));
    entries
}

/// An enqueue attempt whose outcome is unknown. A repeat uses the same key, and so finds the entry.
#[derive(Clone, Debug)]
pub(crate) struct EnqueueAttempt {
    pub(crate) lease: Lease,
    pub(crate) reserved: Arc<ReservedKey>,
}

/// What a release has done with the lease of a grant. Once the lease was returned, it may serve
/// another lock: this grant must not use it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseUse {
    /// The lease may be returned: the lock was granted at once to a writer.
    Returnable,
    /// The release will revoke the lease.
    Own,
    /// The entry was or will be deleted without its lease. If the answer is lost, the lease is
    /// never returned.
    Deleting,
    /// The lease was or will be revoked.
    Revoking,
    /// The entry was deleted, and the lease returned.
    Returned,
}

/// The state of a grant.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) reserved: Arc<ReservedKey>,
    pub(crate) lease: Lease,
    pub(crate) created: i64,
    pub(crate) entry: QueueEntry,
    /// The history of the cluster in which it was granted.
    pub(crate) history: u64,
    pub(crate) lease_use: Mutex<LeaseUse>,
}

impl Held {
    pub(crate) fn lease_use(&self) -> LeaseUse {
        *self.lease_use.lock()
    }

    /// Whether its release may delete the entry without the lease. Says so once: a repeat revokes
    /// the lease.
    pub(crate) fn begin_return(&self) -> bool {
        self.change(LeaseUse::Returnable, LeaseUse::Deleting)
    }

    /// Whether the lease of the deleted entry may be returned: no other release revokes it
    /// meanwhile.
    pub(crate) fn end_return(&self) -> bool {
        self.change(LeaseUse::Deleting, LeaseUse::Returned)
    }

    /// Whether its release may revoke the lease: it was not returned.
    pub(crate) fn begin_revoke(&self) -> bool {
        let mut lease_use = self.lease_use.lock();
        if *lease_use == LeaseUse::Returned {
            return false;
        }
        *lease_use = LeaseUse::Revoking;
        true
    }

    fn change(&self, from: LeaseUse, to: LeaseUse) -> bool {
        let mut lease_use = self.lease_use.lock();
        let may = *lease_use == from;
        if may {
            *lease_use = to;
        }
        may
    }

    /// The condition that nobody has written its entry since it was granted at once.
    pub(crate) fn is_unwritten(&self) -> Compare {
        Compare::mod_revision(self.key(), CompareOp::Equal, self.created)
    }

    pub(crate) fn key(&self) -> &str {
        &self.reserved.key
    }

    /// Its entry as it was granted, and the conditions that it still exists unchanged. They mostly
    /// succeed, since nobody else changes the entry of a holder.
    pub(crate) fn as_granted(&self) -> (QueueEntry, Vec<Compare>) {
        let entry = self.entry.clone();
        let same = vec![
            Compare::create_revision(self.key(), CompareOp::Equal, self.created),
            Compare::lease(self.key(), CompareOp::Equal, self.lease.id),
            Compare::value(self.key(), CompareOp::Equal, entry.to_bytes()),
        ];
        (entry, same)
    }

    /// The same for the entry as it was read, for example with a raised token. `None` if the lock
    /// is no longer held.
    pub(crate) fn as_found(&self, found: &GetResponse) -> Option<(QueueEntry, Vec<Compare>)> {
        let seen = StoredEntry::from_get(found)?;
        if seen.created != self.created || seen.lease != self.lease.id {
            return None;
        }
        let same = Compare::mod_revision(self.key(), CompareOp::Equal, seen.modified);
        Some((seen.entry?, vec![same]))
    }
}

/// The token of an entry created at `revision`.
pub(crate) fn token(offset: i64, revision: i64) -> FencingToken {
    let sum = offset.saturating_add(revision);
    // Offsets are checked when they are raised, so the sum stays in range.
    u64::try_from(sum).ok().and_then(FencingToken::new).unwrap_or(FencingToken::MAX)
}
