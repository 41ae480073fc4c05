//! The settings that all clients of a store share.

use std::time::Duration;

use lock_core::{
    Env as _, Error, ErrorKind, Quarantined, StoreSettings, SystemEnv, check_record_version,
    check_span,
};
use serde::{Deserialize, Serialize};

use super::data;
use crate::tunables::LONGEST_LEASES;

/// The version of the layout of paths, entries and settings.
pub(crate) const RECORD_VERSION: u64 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) version: u64,
    /// A random number, drawn with the first settings.
    pub(crate) store: u64,
    pub(crate) longest_lease_millis: u64,
    /// No lease that may still be held is longer than this.
    pub(crate) longest_held_millis: u64,
    /// Whether nothing is granted for `longest_held_millis` after a restore.
    pub(crate) quarantine: bool,
    /// Nothing is granted before, on the clock of ZooKeeper's leader.
    pub(crate) grants_from_micros: u64,
    /// Why.
    pub(crate) why: String,
    /// No record that was written since then was lost.
    pub(crate) records_since_micros: u64,
}

/// The part that settings of every version have.
#[derive(Deserialize)]
struct AnySettings {
    version: u64,
}

impl Settings {
    /// The settings of an unused store.
    pub(crate) fn first(longest: Option<Duration>) -> Self {
        let longest = longest.unwrap_or(StoreSettings::DEFAULT_LONGEST_LEASE);
        let longest_lease_millis = longest.as_millis() as u64;
        Self {
            version: RECORD_VERSION,
            store: SystemEnv.random() as u64,
            longest_lease_millis,
            longest_held_millis: longest_lease_millis,
            quarantine: true,
            grants_from_micros: 0,
            why: String::new(),
            records_since_micros: 0,
        }
    }

    /// Reads settings. First refuses those of another version, since they need not be readable.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let unreadable = || {
            let message = "the settings of the store cannot be read; they were changed by hand, or the prefix is \
                           used by something else";
            Error::new(ErrorKind::Config, message)
        };
        let any: AnySettings = data::read(bytes).ok_or_else(unreadable)?;
        check_record_version(&any.version.to_string(), RECORD_VERSION)?;
        data::read(bytes).ok_or_else(unreadable)
    }

    pub(crate) fn longest_lease(&self) -> Duration {
        Duration::from_millis(self.longest_lease_millis)
    }

    pub(crate) fn longest_held(&self) -> Duration {
        Duration::from_millis(self.longest_held_millis)
    }

    /// Grants nothing for this long, or for longer if that was so already.
    pub(crate) fn hold_back(&mut self, now_micros: u64, span: Duration, why: &str) {
        let until = now_micros.saturating_add(span.as_micros() as u64);
        if until > self.grants_from_micros {
            self.grants_from_micros = until;
            self.why = why.to_owned();
        }
    }

    /// The quarantine that runs at this time.
    pub(crate) fn quarantined(&self, now_micros: u64) -> Option<Quarantined> {
        let remaining = self.grants_from_micros.saturating_sub(now_micros);
        let remaining = Some(Duration::from_micros(remaining)).filter(|left| !left.is_zero());
        remaining.map(|remaining| Quarantined::new(remaining, self.why.as_str()))
    }
}

pub(crate) fn check_longest(longest: Duration) -> Result<(), Error> {
    let (least, most) = LONGEST_LEASES.into_inner();
    check_span("longest_lease", longest, least, most)
}
