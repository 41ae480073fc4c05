//! The values of queue entries.

use std::{sync::Arc, time::Duration};

use etcd_client::{Compare, CompareOp, GetResponse, KeyValue};
use lock_core::{FencingToken, Holder, Mode, OwnerId, OwnerLabel, Request};
use serde::{Deserialize, Serialize};

use super::{layout::mode_of, seats::Seat};
use crate::rpc::Lease;

/// The value of an entry of ours. An entry of etcd's own tools has another value, mostly none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueueEntry {
    pub(crate) owner: OwnerId,
    pub(crate) label: OwnerLabel,
    /// The offset of the token, as the settings had it when the grant was made: a later one is not
    /// this grant's.
    pub(crate) offset: i64,
    /// The lock was granted to it; otherwise it waits, or has not noticed its turn yet.
    pub(crate) granted: bool,
    /// It was released, and is kept for a last while.
    pub(crate) kept: bool,
}

impl QueueEntry {
    pub(crate) fn new(request: &Request, offset: i64, granted: bool) -> Self {
        let (owner, label) = (request.owner, request.label.clone());
        Self { owner, label, offset, granted, kept: false }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // A struct of texts and numbers always has a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// An entry as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// A text, unless another program made it.
    pub(crate) key: Vec<u8>,
    /// The lease that the key lives by.
    pub(crate) lease: i64,
    pub(crate) created: i64,
    pub(crate) modified: i64,
    /// `None` for an entry of etcd's own tools, and for one that cannot be read.
    pub(crate) entry: Option<QueueEntry>,
}

impl Seen {
    pub(crate) fn read(pair: &KeyValue) -> Self {
        Self {
            key: pair.key().to_vec(),
            lease: pair.lease(),
            created: pair.create_revision(),
            modified: pair.mod_revision(),
            entry: serde_json::from_slice(pair.value()).ok(),
        }
    }

    /// The one entry that was read.
    pub(crate) fn only(got: &GetResponse) -> Option<Self> {
        got.kvs().first().map(Self::read)
    }

    /// Its key and create revision, for the waiter behind it. A waiter finds the end of a key that is no text by
    /// polling.
    pub(crate) fn to_follow(&self) -> (String, i64) {
        (String::from_utf8_lossy(&self.key).into_owned(), self.created)
    }

    /// The token of its grant.
    pub(crate) fn token(&self) -> FencingToken {
        let offset = self.entry.as_ref().map_or(0, |entry| entry.offset);
        token(offset, self.created)
    }

    pub(crate) fn is_of(&self, owner: OwnerId) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.owner == owner)
    }

    pub(crate) fn mode(&self) -> Mode {
        mode_of(&self.key)
    }

    /// Whether it surely holds the lock as a reader. One that waited may hold it, too, and not say so.
    pub(crate) fn is_inside(&self) -> bool {
        self.mode() == Mode::Shared && self.entry.as_ref().is_some_and(|entry| entry.granted)
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.kept)
    }

    /// The holder, with `remaining` of its lease. Other tools leave only the number of their lease. An entry that
    /// cannot be read is in the way all the same.
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

/// Those of the entries of a name that hold the lock: the one that stands first, and if that is a reader's, all up to the
/// first writer's.
pub(crate) fn holders(mut entries: Vec<Seen>) -> Vec<Seen> {
    entries.sort_by_key(|seen| seen.created);
    let readers = entries.iter().take_while(|seen| seen.mode() == Mode::Shared).count();
    entries.truncate(readers.max(1));
    entries
}

/// An attempt to wait whose outcome is not known: a repeat finds its entry by the same key.
#[derive(Clone, Debug)]
pub(crate) struct EnqueueAttempt {
    pub(crate) lease: Lease,
    pub(crate) seat: Arc<Seat>,
}

/// The state of a grant.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) seat: Arc<Seat>,
    pub(crate) lease: Lease,
    pub(crate) created: i64,
    pub(crate) entry: QueueEntry,
    /// In which history of the cluster it was granted.
    pub(crate) history: u64,
}

impl Held {
    pub(crate) fn key(&self) -> &str {
        &self.seat.key
    }

    /// Its entry as it was granted, and the conditions that it is still there and unchanged. Nobody else changes an
    /// entry that is held: most often they hold.
    pub(crate) fn as_granted(&self) -> (QueueEntry, Vec<Compare>) {
        let entry = self.entry.clone();
        let same = vec![
            Compare::create_revision(self.key(), CompareOp::Equal, self.created),
            Compare::lease(self.key(), CompareOp::Equal, self.lease.id),
            Compare::value(self.key(), CompareOp::Equal, entry.to_bytes()),
        ];
        (entry, same)
    }

    /// The same as it was found, such as with the token that it was raised to; `None` if it is held no more.
    pub(crate) fn as_found(&self, found: &GetResponse) -> Option<(QueueEntry, Vec<Compare>)> {
        let seen = Seen::only(found)?;
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
    // Offsets are checked when they are raised, so that sums stay in range.
    u64::try_from(sum).ok().and_then(FencingToken::new).unwrap_or(FencingToken::MAX)
}
