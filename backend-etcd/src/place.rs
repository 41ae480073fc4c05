//! What a place's key holds.

use std::{sync::Arc, time::Duration};

use etcd_client::KeyValue;
use lock_core::{FencingToken, Holder, OwnerId, OwnerLabel, Request};
use serde::{Deserialize, Serialize};

use crate::{rpc::Lease, seats::Seat};

/// The value of a place of ours. A place of etcd's own tools has another value, mostly none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) owner: OwnerId,
    pub(crate) label: OwnerLabel,
    /// The offset of the token, as the settings had it when the grant was made: a later one is not
    /// this grant's.
    pub(crate) offset: i64,
    /// The lock was granted to it; otherwise it waits, or has not heard of its turn yet.
    pub(crate) granted: bool,
    /// It was released, and is kept for a last while.
    pub(crate) kept: bool,
}

impl Place {
    pub(crate) fn new(request: &Request, offset: i64, granted: bool) -> Self {
        let (owner, label) = (request.owner, request.label.clone());
        Self { owner, label, offset, granted, kept: false }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // A struct of texts and numbers always has a JSON form.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// A place as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// A text, unless somebody else made it.
    pub(crate) key: Vec<u8>,
    /// The lease that the key lives by.
    pub(crate) lease: i64,
    pub(crate) created: i64,
    pub(crate) modified: i64,
    /// `None` for a place of etcd's own tools, and for one that cannot be read.
    pub(crate) place: Option<Place>,
}

impl Seen {
    pub(crate) fn read(pair: &KeyValue) -> Self {
        Self {
            key: pair.key().to_vec(),
            lease: pair.lease(),
            created: pair.create_revision(),
            modified: pair.mod_revision(),
            place: serde_json::from_slice(pair.value()).ok(),
        }
    }

    /// Whose end is waited for. One whose key is no text is not told of, and found by asking.
    pub(crate) fn to_follow(&self) -> (String, i64) {
        (String::from_utf8_lossy(&self.key).into_owned(), self.created)
    }

    /// The token of its grant.
    pub(crate) fn token(&self) -> FencingToken {
        let offset = self.place.as_ref().map_or(0, |place| place.offset);
        token(offset, self.created)
    }

    pub(crate) fn is_of(&self, owner: OwnerId) -> bool {
        self.place.as_ref().is_some_and(|place| place.owner == owner)
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.kept)
    }

    /// Who holds it, with `remaining` of its lease. Others' tools leave only their lease's number. What cannot be
    /// read is in the way all the same.
    pub(crate) fn holder(&self, remaining: Duration) -> Option<Holder> {
        if let Some(Place { owner, label, .. }) = &self.place {
            return Some(Holder { owner: *owner, label: label.clone(), remaining });
        }
        let lease = self.lease;
        let label = match lease {
            0 => "a key without a lease, which ends by `release --force` only".to_owned(),
            lease => format!("etcd lease {lease:x}"),
        };
        let label = OwnerLabel::new(label).ok()?;
        Some(Holder { owner: OwnerId::from_bits(lease as u128), label, remaining })
    }
}

/// What a grant must know later.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) seat: Arc<Seat>,
    pub(crate) lease: Lease,
    pub(crate) created: i64,
    pub(crate) place: Place,
    /// In which history of the cluster it was granted.
    pub(crate) history: u64,
}

impl Held {
    pub(crate) fn key(&self) -> &str {
        &self.seat.key
    }
}

/// The token of a place created at `revision`.
pub(crate) fn token(offset: i64, revision: i64) -> FencingToken {
    let sum = offset.saturating_add(revision);
    // Offsets are checked when they are raised, so that sums stay in range.
    u64::try_from(sum).ok().and_then(FencingToken::new).unwrap_or(FencingToken::MAX)
}
