//! What an object says about one name.

use std::{fmt, time::Duration};

use lock_core::{FencingToken, Holder, OwnerId, OwnerLabel, whole_millis};
use serde::{Deserialize, Serialize};

/// A random word, new in every write. No two records are the same bytes, so no version of an object
/// comes back, even if the store makes versions of the content.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nonce(String);

impl Nonce {
    /// The nonce of these random bits.
    #[must_use]
    pub fn of(bits: u128) -> Self {
        Self(format!("{bits:032x}"))
    }
}

/// The record of one name. It stays after a release, so that tokens increase and late requests
/// fail.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Record {
    /// New in every write.
    pub nonce: Nonce,
    /// The last token of the name.
    pub token: FencingToken,
    /// Who has the lock.
    pub holder: Option<Held>,
    /// The last owners that were abandoned. What keeps their late requests out is the nonce; this
    /// list also stops an attempt that only begins after it was given up.
    pub abandoned: Vec<OwnerId>,
    /// What a holder wrote for later holders.
    pub value: Option<Value>,
    /// The nonce of the last write that freed the lock, for its holder or by force. A client whose
    /// release had no answer finds it here, although there is a next holder.
    pub freed: Option<Nonce>,
}

/// Who has a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// The owner.
    pub owner: OwnerId,
    /// Its label.
    pub label: OwnerLabel,
    /// Its lease, or the rest of a minimum hold, in milliseconds.
    pub lease_ms: u64,
    /// The nonce of the last write in which this lease began anew. Others count the lease from the
    /// first answer with this word. Writes of other clients keep it.
    pub beat: Nonce,
    /// Whether the owner has released the lock, which stays for a minimum hold.
    pub kept: bool,
}

impl Held {
    /// The lease.
    #[must_use]
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// Whether the record cannot be read.
    pub(super) fn is_unreadable(&self) -> bool {
        Holder::new(self.owner, self.label.clone(), self.lease()).is_unreadable()
    }
}

/// A value that a holder wrote.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The token of the grant that wrote it.
    pub token: FencingToken,
    /// The number of the write within the grant.
    pub number: u64,
    /// When it was written, in microseconds since 1970, on the clock of the writer.
    pub written_micros: u64,
}

/// The value is the caller's, and may be secret: only its length is shown.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Value")
            .field("bytes", &self.bytes.len())
            .field("token", &self.token)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Record {
    pub(super) fn new(nonce: Nonce) -> Self {
        let token = FencingToken::ZERO;
        Self { nonce, token, holder: None, abandoned: Vec::new(), value: None, freed: None }
    }

    /// The record in these bytes. What cannot be read counts as held without an end: only an
    /// operator can say that nobody relies on it. This includes fields of a later version.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_else(|_| {
            let Holder { owner, label, remaining, .. } = Holder::unreadable(Holder::WITHOUT_END);
            let nonce = Nonce::of(0);
            let (lease_ms, beat) = (whole_millis(remaining), nonce.clone());
            let held = Held { owner, label, lease_ms, beat, kept: false };
            Self { holder: Some(held), ..Self::new(nonce) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_value_are_not_shown() {
        let bytes = b"\0hunter2\xff".to_vec();
        let value = Value { bytes, token: FencingToken::ZERO, number: 1, written_micros: 0 };
        let shown = format!("{value:?}");
        assert!(shown.contains("bytes: 9") && !shown.contains("104, 117"), "{shown}");
    }

    #[test]
    fn what_cannot_be_read_is_held_without_an_end() {
        let of_a_later_version = br#"{"nonce":"1","token":5,"abandoned":[],"readers":["2"]}"#;
        for bytes in [&b""[..], b"{}", b"\xff", b"null", of_a_later_version] {
            let held = Record::read(bytes).holder.expect("a holder");
            assert!(held.lease() >= Holder::WITHOUT_END);
            assert!(Holder::new(held.owner, held.label, Duration::ZERO).is_unreadable());
        }
    }
}
