//! The settings record that all clients of a store share: the longest lease, the offset of the
//! tokens, and the numbers that reveal a restore.
//!
//! etcd cannot add numbers. So a token is the sum of the entry's create revision, which etcd
//! counts, and an offset, which clients raise and never lower. Every transaction that grants
//! compares the revision of the settings record, to be sure that the offset is current. Revisions
//! grow more slowly than microseconds: if a token would lag behind the clock by more than
//! [`TOKEN_LAG`], the client raises the offset in the same transaction. So there is at most one
//! raise in that time. It costs every other client one read and one more attempt, and every waiting
//! entry a write. After a restore, tokens start above the clock and do not depend on the lag.

use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetResponse, KeyValue, PutOptions, TxnOp};
use lock_core::{
    Env as _, Error, ErrorKind, FencingToken, Instant, StoreSettings, SystemEnv,
    check_record_version, check_span,
};
use serde::{Deserialize, Serialize};

use super::layout::KeyLayout;
use crate::tunables::{LONGEST_LEASES, OLD_SETTINGS, TOKEN_LAG};

/// The version of the layout of keys, entries and settings.
pub(crate) const RECORD_VERSION: u64 = 1;

/// The largest token by the revision that the client knows. It leaves room, because etcd may have
/// reached a higher revision.
const LAST: i64 = FencingToken::MAX.get().cast_signed() - (1 << 32);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) version: u64,
    pub(crate) longest_lease_micros: u64,
    /// No lease that may still be held is longer than this. A lease granted before the longest
    /// lease was shortened goes on.
    pub(crate) longest_held_micros: u64,
    /// Whether nothing is granted for `longest_held_micros` after a restore.
    pub(crate) quarantine: bool,
    pub(crate) offset: i64,
    /// All tokens granted from now on are larger than this. Set after a restore, above all tokens
    /// granted before it.
    pub(crate) least: i64,
    /// A random number, drawn with the first settings and kept as long as a client knows them.
    /// `None` as long as there are no settings.
    pub(crate) store: Option<u64>,
    /// No record that was written since then was lost, in microseconds since 1970.
    #[serde(default)]
    pub(crate) records_since: u64,
    /// The number of the history. A new one is drawn after a restore.
    pub(crate) history: u64,
    /// etcd's id of the cluster.
    pub(crate) cluster: u64,
    /// By how much the index of the log was ahead of the revision when a client of this history saw
    /// both.
    pub(crate) lead: i64,
}

/// The part that settings of every version have.
#[derive(Deserialize)]
struct AnyRecord {
    #[serde(default)]
    version: u64,
}

/// The settings record as it was last read.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) record: Record,
    /// Its revision; 0 if there is no record.
    pub(crate) revision: i64,
    /// The revision of the store at that time, or a later one.
    pub(crate) now: i64,
    /// When the record was last known to be current.
    pub(crate) confirmed_at: Instant,
}

impl Record {
    pub(crate) fn new(longest: Option<Duration>) -> Self {
        let longest = longest.unwrap_or(StoreSettings::DEFAULT_LONGEST_LEASE);
        let longest_lease_micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        Self {
            version: RECORD_VERSION,
            longest_lease_micros,
            longest_held_micros: longest_lease_micros,
            quarantine: true,
            offset: 0,
            least: 0,
            store: None,
            records_since: 0,
            history: 0,
            cluster: 0,
            lead: i64::MIN,
        }
    }

    /// The settings of an unused store.
    pub(crate) fn first(longest: Option<Duration>) -> Self {
        Self { store: Some(SystemEnv.random() as u64), ..Self::new(longest) }
    }

    /// The unique name of the store: the cluster's id, the prefix of the keys, and the random
    /// number. The number is needed because etcd derives the cluster's id from flags that another
    /// cluster may share. It comes last, so that it seldom decides the order of two stores.
    pub(crate) fn name_of_store(&self, layout: &KeyLayout) -> String {
        let name = format!("etcd:{:016x}:{}", self.cluster, layout.prefix());
        match self.store {
            Some(number) => format!("{name}:{number:016x}"),
            None => name,
        }
    }

    pub(crate) fn longest_held(&self) -> Duration {
        Duration::from_micros(self.longest_held_micros)
    }

    pub(crate) fn longest_lease(&self) -> Duration {
        Duration::from_micros(self.longest_lease_micros)
    }

    /// Whether no token is left at a revision.
    pub(crate) fn is_used_up(&self, revision: i64) -> bool {
        self.offset.saturating_add(revision) >= LAST || self.least >= LAST
    }

    /// The highest token that may have been granted at a revision; the largest possible token if
    /// none is left.
    pub(crate) fn highest_token(&self, revision: i64) -> FencingToken {
        let highest = self.offset.saturating_add(revision).max(self.least);
        let highest = FencingToken::new(highest.max(0).cast_unsigned());
        highest.filter(|_| !self.is_used_up(revision)).unwrap_or(FencingToken::MAX)
    }

    pub(crate) fn put(&self, layout: &KeyLayout) -> TxnOp {
        let value = serde_json::to_vec(self).unwrap_or_default();
        TxnOp::put(layout.settings(), value, None::<PutOptions>)
    }

    /// Parses settings. First refuses those of another version, since they need not be parsable.
    fn read(pair: &KeyValue) -> Result<Self, Error> {
        if let Ok(AnyRecord { version }) = serde_json::from_slice(pair.value()) {
            check_record_version(&version.to_string(), RECORD_VERSION)?;
        }
        serde_json::from_slice(pair.value()).map_err(|error| {
            let message = format!(
                "the settings in etcd are not as this version writes them; if no other program needs them, stop all \
                 clients, delete the key {}, and run `leasehold init --restored`",
                pair.key_str().unwrap_or_default()
            );
            Error::new(ErrorKind::Config, message).with_source(error)
        })
    }

    /// The settings in an answer, with their revision.
    pub(crate) fn found(got: &GetResponse) -> Result<Option<(Self, i64)>, Error> {
        let pair = got.kvs().first();
        pair.map(|pair| Ok((Self::read(pair)?, pair.mod_revision()))).transpose()
    }
}

pub(crate) fn check_longest(longest: Duration) -> Result<(), Error> {
    check_span("longest lease", longest, *LONGEST_LEASES.start(), *LONGEST_LEASES.end())
}

impl Settings {
    /// The condition that the record is still this one.
    pub(crate) fn unchanged(&self, layout: &KeyLayout) -> Compare {
        Compare::mod_revision(layout.settings(), CompareOp::Equal, self.revision)
    }

    /// Whether the record was confirmed so long ago that others have probably raised the offset
    /// since.
    pub(crate) fn is_old(&self) -> bool {
        SystemEnv.now().since(self.confirmed_at) > OLD_SETTINGS
    }

    /// The offset that a grant of an entry created at `revision` or later needs, so that its token
    /// is above `floor` and not far behind the clock. `None` if the present offset is enough.
    ///
    /// # Errors
    /// `Config` if no larger tokens are left, for example after a clock that was centuries ahead:
    /// tokens above the largest would all be the same.
    pub(crate) fn raised_offset(
        &self,
        revision: i64,
        floor: FencingToken,
    ) -> Result<Option<i64>, Error> {
        let clock = SystemEnv.wall_micros().cast_signed();
        let raised = self.raised_offset_at(revision, floor, clock);
        let token = raised.unwrap_or(self.record.offset).saturating_add(revision);
        if token > LAST {
            let message = "the fencing tokens are used up; `leasehold init --restored` resets them, to below \
                           those that fences have admitted";
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(raised)
    }

    fn raised_offset_at(&self, revision: i64, floor: FencingToken, clock: i64) -> Option<i64> {
        let present = self.record.offset;
        let mut wanted = present;
        let floor = floor.get().cast_signed().max(self.record.least);
        if floor > 0 {
            wanted = wanted.max(floor.saturating_add(1).saturating_sub(revision));
        }
        let lag = TOKEN_LAG.as_micros() as i64;
        if present.saturating_add(revision) < clock - lag {
            wanted = wanted.max(clock.saturating_sub(revision));
        }
        (wanted > present).then_some(wanted)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn settings(offset: i64) -> Settings {
        let record = Record { offset, ..Record::new(None) };
        Settings { record, revision: 1, now: 10, confirmed_at: Instant::default() }
    }

    #[test]
    fn the_offset_follows_the_clock_within_the_lag_and_never_goes_back() {
        let clock = 1_700_000_000_000_000;
        let fresh = settings(0).raised_offset_at(11, FencingToken::ZERO, clock);
        assert_eq!(fresh, Some(clock - 11));
        let present = settings(clock - 11);
        let lag = TOKEN_LAG.as_micros() as i64;
        assert_eq!(present.raised_offset_at(12, FencingToken::ZERO, clock + lag), None);
        let later = present.raised_offset_at(12, FencingToken::ZERO, clock + lag + 2);
        assert_eq!(later, Some(clock + lag + 2 - 12));
        assert_eq!(present.raised_offset_at(12, FencingToken::ZERO, clock - 5_000_000), None);
    }

    #[test]
    fn a_token_is_above_the_floor() {
        let floor = FencingToken::new(5_000).unwrap_or(FencingToken::MAX);
        assert_eq!(settings(100).raised_offset_at(20, floor, 0), Some(4_981));
        assert_eq!(settings(4_981).raised_offset_at(20, floor, 0), None);
        let mut restored = settings(100);
        restored.record.least = 6_000;
        assert_eq!(restored.raised_offset_at(20, floor, 0), Some(5_981));
    }

    #[test]
    fn stores_in_clusters_with_the_same_id_have_different_names() {
        let layout = KeyLayout::new("leasehold/");
        let [one, other] = [0; 2].map(|_| Record { cluster: 10, ..Record::first(None) });
        assert_ne!(one.name_of_store(&layout), other.name_of_store(&layout));
        assert_ne!(one.name_of_store(&layout), one.name_of_store(&KeyLayout::new("other/")));
        let elsewhere = Record { cluster: 11, ..one.clone() };
        assert_ne!(one.name_of_store(&layout), elsewhere.name_of_store(&layout));
    }

    #[test]
    fn settings_without_a_number_are_read_and_keep_their_name() {
        let mut value =
            serde_json::to_value(Record { cluster: 10, ..Record::first(None) }).unwrap();
        value.as_object_mut().and_then(|fields| fields.remove("store")).unwrap();
        let before: Record = serde_json::from_value(value).unwrap();
        assert_eq!(before, Record { cluster: 10, ..Record::new(None) });
        let name = before.name_of_store(&KeyLayout::new("leasehold/"));
        assert_eq!(name, "etcd:000000000000000a:leasehold/");
    }

    #[test]
    fn no_two_tokens_are_the_largest() {
        assert!(settings(LAST - 10).raised_offset(10, FencingToken::ZERO).is_ok());
        let used_up = settings(LAST - 10).raised_offset(11, FencingToken::ZERO);
        assert!(used_up.is_err(), "{used_up:?}");
    }
}
