//! Why it may be unknown whether a job has run.

use std::{fmt, time::Duration};

use super::last_run::LastRun;
use crate::StoreTime;

/// It is unknown whether a job has run within its period.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownRun {
    /// Why.
    pub why: Doubt,
    /// The last run that the store has a record of. A later one may be lost.
    pub last: Option<LastRun>,
}

/// Why it is unknown whether a job has run within its period.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// The store may have lost the record of a run.
    Lost {
        /// Records that were written before this time may be lost.
        complete_since: StoreTime,
        /// When such a run no longer counts, so that the job is due.
        until: StoreTime,
    },
    /// There is no record, and the period is longer than a run with a shorter period is kept for.
    Forgotten {
        /// How long each run is kept for at least.
        kept_for: Duration,
    },
    /// The record is from the future: the store's clock was set back. So it is unknown how long ago
    /// the run was.
    ClockWentBack {
        /// When the record was written.
        written: StoreTime,
        /// The time of the store now.
        now: StoreTime,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { complete_since, until } => write!(
                f,
                "the store may have lost the record of a run before {complete_since}, and such a run \
                 counts until {until} (if nothing was lost, `leasehold init --records-complete` says so)"
            ),
            Self::Forgotten { kept_for } => write!(
                f,
                "the store has no record of a run, and may have forgotten one: of a job with a shorter \
                 period it keeps the record for {} days only",
                kept_for.as_secs() / 86_400
            ),
            Self::ClockWentBack { written, now } => write!(
                f,
                "the last run was recorded at {written} by the store's clock, which now shows {now}: it \
                 was set back"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    /// This hour of day 100.
    fn at(hour: u32) -> StoreTime {
        StoreTime::EVER + DAY * 100 + DAY / 24 * hour
    }

    #[test]
    fn a_doubt_says_what_ends_it() {
        let lost = Doubt::Lost { complete_since: at(12), until: at(35) };
        let text = lost.to_string();
        for part in ["1970-04-11T12:00:00Z", "1970-04-12T11:00:00Z", "init --records-complete"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let text = Doubt::Forgotten { kept_for: 40 * DAY }.to_string();
        assert!(text.contains("for 40 days only"), "{text}");
        let back = Doubt::ClockWentBack { written: at(2), now: at(1) };
        assert!(back.to_string().contains("was set back"), "{back}");
    }
}
