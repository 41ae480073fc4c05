//! The names of the measurements.

use serde::Serialize;

/// The number of tasks of the measurements with many tasks.
pub(crate) const MANY: usize = 64;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Measure {
    /// The store's cheapest round trip, through its own client.
    Ping,
    /// The store's cheapest write, through its own client.
    Write,
    /// The bare lock: the least that acquires and releases a lock in this store, through its own
    /// client.
    Pair,
    /// The same by 64 tasks at once, each with a lock of its own.
    Pairs,
    /// Acquire of a free name.
    Acquire,
    /// Acquire and release of a free name by one task.
    Uncontended,
    /// The same by 64 tasks, each on a name of its own.
    ManyNames,
    /// From a release to the next holder, with 1 waiting task on one name.
    Handoff1,
    /// With 4 waiting.
    Handoff4,
    /// With 16 waiting.
    Handoff16,
    /// With 64 waiting.
    Handoff64,
    /// With 256 waiting.
    Handoff256,
    /// From the end of a dead holder's lease until a waiter has the lock.
    Death,
    /// From the SIGKILL of a holder's process until a waiter has the lock. The lease is one second,
    /// or the store's shortest lease if that is longer.
    Killed,
    /// From the moment at which a holder is cut off from the store until its guard reports the
    /// loss, with the same lease.
    CutOff,
    /// What one held lock costs, with a lease of 6 s: processor time of this process per second.
    Held1,
    /// What 1,000 held locks cost.
    Held1000,
    /// What 10,000 held locks cost.
    Held10000,
}

impl Measure {
    /// All, in the order of the report.
    pub const ALL: [Self; 18] = [
        Self::Ping,
        Self::Write,
        Self::Pair,
        Self::Pairs,
        Self::Acquire,
        Self::Uncontended,
        Self::ManyNames,
        Self::Handoff1,
        Self::Handoff4,
        Self::Handoff16,
        Self::Handoff64,
        Self::Handoff256,
        Self::Death,
        Self::Killed,
        Self::CutOff,
        Self::Held1,
        Self::Held1000,
        Self::Held10000,
    ];

    /// The title in the report.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ping => "ping (floor)",
            Self::Write => "cheapest write (floor)",
            Self::Pair => "bare lock + unlock (floor)",
            Self::Pairs => "the same, 64 tasks (floor)",
            Self::Acquire => "acquire",
            Self::Uncontended => "acquire + release",
            Self::ManyNames => "the same, 64 tasks, own names",
            Self::Handoff1 => "handoff, 1 waiting",
            Self::Handoff4 => "handoff, 4 waiting",
            Self::Handoff16 => "handoff, 16 waiting",
            Self::Handoff64 => "handoff, 64 waiting",
            Self::Handoff256 => "handoff, 256 waiting",
            Self::Death => "free after a dead holder's lease",
            Self::Killed => "free after a holder is killed",
            Self::CutOff => "loss reported after a cut",
            Self::Held1 => "1 held lock, client's processor",
            Self::Held1000 => "1,000 held locks",
            Self::Held10000 => "10,000 held locks",
        }
    }

    /// The name in the JSON.
    pub(crate) fn id(self) -> String {
        let json = serde_json::to_value(self);
        json.ok().and_then(|id| id.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Whether it is measured through the store's own client.
    pub(crate) const fn is_floor(self) -> bool {
        matches!(self, Self::Ping | Self::Write | Self::Pair | Self::Pairs)
    }

    /// Whether it is a single time, not a rate.
    pub(crate) const fn is_once(self) -> bool {
        matches!(self, Self::Death | Self::Killed | Self::CutOff)
    }

    /// Whether it is the cost of held locks.
    pub(crate) const fn is_held(self) -> bool {
        matches!(self, Self::Held1 | Self::Held1000 | Self::Held10000)
    }

    /// Whether stores are ranked by the rate (more is better), not by the median time.
    #[must_use]
    pub const fn by_rate(self) -> bool {
        matches!(
            self,
            Self::Pairs
                | Self::ManyNames
                | Self::Handoff1
                | Self::Handoff4
                | Self::Handoff16
                | Self::Handoff64
                | Self::Handoff256
        )
    }
}
