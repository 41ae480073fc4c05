//! The settings that all clients of a store share.

use std::time::Duration;

use lock_core::{
    Env as _, Error, ErrorKind, Quarantined, SystemEnv, check_record_version, check_span,
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
    /// No record that was written since then was lost, unless in an unproven epoch.
    records_since_micros: u64,
    /// The last epoch in which nobody holds what this state does not have.
    epoch: i64,
    /// A later epoch, of which nobody knows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unproven: Option<UnprovenEpoch>,
}

/// An epoch that may have begun with an old state. `session/own.rs` says who knows better.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct UnprovenEpoch {
    epoch: i64,
    /// With a quarantine, nothing is granted before, since others may hold what was lost.
    from_micros: u64,
    /// No record that was written since then was lost.
    records_since_micros: u64,
}

const UNPROVEN: &str =
    "the servers have elected a leader, and no client has seen that they have kept all data";

/// The part that settings of every version have.
#[derive(Deserialize)]
struct AnySettings {
    version: u64,
}

impl Settings {
    /// The settings of an unused store.
    pub(crate) fn first(longest: Duration, epoch: i64) -> Self {
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
            epoch,
            unproven: None,
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

    /// All data were lost, and elections are counted anew: this is the present epoch. Others may
    /// still hold locks that are lost, too.
    pub(crate) fn lost(&mut self, epoch: i64, now_micros: u64) {
        (self.epoch, self.unproven) = (epoch, None);
        if self.quarantine {
            self.hold_back(now_micros, self.longest_held(), "the data of the store were lost");
        }
        self.records_lost(now_micros);
    }

    pub(crate) fn records_lost(&mut self, now_micros: u64) {
        self.records_since_micros = now_micros;
    }

    /// The quarantine that runs at this time.
    pub(crate) fn quarantined(&self, now_micros: u64) -> Option<Quarantined> {
        let reported = (self.grants_from_micros, self.why.as_str());
        let unproven = self.unproven.as_ref().filter(|_| self.quarantine);
        let unproven = unproven.map(|it| (it.from_micros, UNPROVEN));
        let (from, why) = unproven.into_iter().chain([reported]).max_by_key(|(from, _)| *from)?;
        let remaining = Duration::from_micros(from.saturating_sub(now_micros));
        Some(remaining).filter(|left| !left.is_zero()).map(|left| Quarantined::new(left, why))
    }

    /// The last epoch that is open at this time.
    pub(crate) fn open_epoch(&self, now_micros: u64) -> i64 {
        let waited = self.unproven.as_ref().filter(|it| it.from_micros <= now_micros);
        waited.map_or(self.epoch, |it| it.epoch.max(self.epoch))
    }

    /// The last epoch in which a wait may have begun.
    pub(crate) fn last_epoch(&self) -> i64 {
        self.unproven.as_ref().map_or(self.epoch, |it| it.epoch)
    }

    /// Whether a client that knows of no loss since `unbroken_since` changes nothing by `enter`.
    pub(crate) fn has_entered(&self, epoch: i64, unbroken_since: i64, now_micros: u64) -> bool {
        let has_entered = self.unproven.as_ref().is_some_and(|it| epoch <= it.epoch);
        // guard: unproven-epoch | S1 |
        //   restore::an_ensemble_that_went_back_waits_although_nobody_reports_it |
        //   epoch <= self.open_epoch(now_micros) => true
        epoch <= self.open_epoch(now_micros) || has_entered && unbroken_since > self.epoch
    }

    /// Opens an epoch, or begins to wait, at a client that knows of no loss since `unbroken_since`.
    /// The present time is between `earliest` and `latest`.
    pub(crate) fn enter(&mut self, epoch: i64, unbroken_since: i64, [earliest, latest]: [u64; 2]) {
        // A wait is over when it surely is. A new one is counted from as late as it may begin.
        let open = self.open_epoch(earliest);
        if epoch <= open {
            return;
        }
        // A client that has lived since an unproven epoch does not know what was lost before.
        if unbroken_since > self.epoch {
            self.records_since_micros = self.records_since();
        }
        if unbroken_since <= open {
            (self.epoch, self.unproven) = (epoch, None);
            return;
        }
        let from = latest.saturating_add(self.longest_held().as_micros() as u64);
        let records_since_micros = if self.quarantine { from } else { latest };
        let entered = UnprovenEpoch { epoch, from_micros: from, records_since_micros };
        let entered = match self.unproven.take() {
            // Nothing was lost since that wait began.
            Some(before) if unbroken_since <= before.epoch => UnprovenEpoch { epoch, ..before },
            _ => entered,
        };
        (self.epoch, self.unproven) = (open, Some(entered));
    }

    /// No record that was written since then was lost.
    pub(crate) fn records_since(&self) -> u64 {
        let entered = self.unproven.as_ref().map_or(0, |it| it.records_since_micros);
        entered.max(self.records_since_micros)
    }

    /// An operator says that no record was lost.
    pub(crate) fn records_complete(&mut self) {
        self.records_since_micros = 0;
        if let Some(entered) = &mut self.unproven {
            entered.records_since_micros = 0;
        }
    }

    /// Opens all epochs so far.
    pub(crate) fn open_all(&mut self) {
        self.records_since_micros = self.records_since();
        if let Some(entered) = self.unproven.take() {
            self.epoch = entered.epoch;
        }
        (self.grants_from_micros, self.why) = (0, String::new());
    }
}

/// `shortest` is the shortest lease of this client.
pub(crate) fn check_longest(longest: Duration, shortest: Duration) -> Result<(), Error> {
    let (least, most) = LONGEST_LEASES.into_inner();
    check_span("longest_lease", longest, least.max(shortest), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(30);
    const WAIT: u64 = 30_000_000;

    #[test]
    fn an_epoch_is_opened_by_who_knows_it_or_after_a_wait() {
        let mut settings = Settings::first(LONGEST, 3);
        assert!(settings.has_entered(3, 3, 0) && !settings.has_entered(4, 3, 0));
        // A new client waits. A second one changes nothing.
        settings.enter(4, 4, [100; 2]);
        assert!(settings.quarantined(100).is_some() && settings.has_entered(4, 4, 100));
        let before = settings.clone();
        settings.enter(4, 4, [200; 2]);
        assert!(settings.quarantined(WAIT + 99).is_some());
        // In the next epoch, who has lived since the last one goes on with its wait; others do not.
        settings.enter(5, 4, [300; 2]);
        assert!(settings.quarantined(WAIT + 100).is_none());
        settings.enter(6, 6, [300; 2]);
        assert!(settings.quarantined(WAIT + 299).is_some());
        // A client that knows the first epoch opens all, and no record was lost.
        let mut known = before.clone();
        known.enter(4, 3, [200; 2]);
        assert!(known.quarantined(200).is_none() && known.open_epoch(200) == 4);
        assert_eq!((before.records_since() > 0, known.records_since()), (true, 0));
        // After the wait the epoch is open, but records may be lost.
        let mut waited = before;
        assert_eq!(waited.open_epoch(WAIT + 100), 4);
        // Perhaps it is not over yet, for a client that knows the time only roughly.
        let mut rough = waited.clone();
        rough.enter(5, 4, [WAIT + 99, WAIT + 101]);
        assert_eq!(rough.open_epoch(WAIT + 99), 3);
        waited.enter(5, 4, [WAIT + 100; 2]);
        assert!(waited.quarantined(WAIT + 100).is_none() && waited.records_since() > 0);
        waited.records_complete();
        assert_eq!(waited.records_since(), 0);
    }

    /// Nobody waits, but a record that was written before may be lost.
    #[test]
    fn without_a_quarantine_an_epoch_that_nobody_knows_still_counts_for_records() {
        let mut settings = Settings { quarantine: false, ..Settings::first(LONGEST, 3) };
        settings.enter(4, 4, [100; 2]);
        assert!(settings.has_entered(4, 4, 100) && settings.quarantined(100).is_none());
        assert_eq!(settings.records_since(), 100);
        // A client that knows the store says that none was lost.
        settings.enter(4, 3, [200; 2]);
        assert_eq!((settings.records_since(), settings.open_epoch(200)), (0, 4));
    }

    #[test]
    fn after_a_loss_of_all_data_the_next_election_is_noticed() {
        let mut settings = Settings::first(LONGEST, 9);
        settings.lost(1, 100);
        assert!(settings.quarantined(WAIT + 99).is_some());
        assert!(settings.has_entered(1, 1, WAIT + 100) && settings.records_since() > 0);
        assert!(!settings.has_entered(2, 2, WAIT + 100));
        settings.enter(2, 2, [WAIT + 100; 2]);
        assert!(settings.quarantined(2 * WAIT + 99).is_some());
    }
}
