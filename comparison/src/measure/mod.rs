//! What is measured.

mod death;
mod floor;
mod handoff;
mod held;
mod locks;

use std::{sync::Arc, time::Duration};

use lock_core::Error;
use serde::Serialize;

use crate::{sample::Sample, store::Subject};

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The store's cheapest round trip, by its own client.
    Ping,
    /// The store's cheapest write, by its own client.
    Write,
    /// Acquire and release of a free name, one after the other.
    Uncontended,
    /// The same by 64 tasks, each on a name of its own.
    ManyNames,
    /// From a release to the next holder, with this many waiting tasks on one name.
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
    /// Processor time of this process per second for each of 1,000 held locks.
    Held,
}

impl Measure {
    /// All, in the order of a round.
    pub const ALL: [Self; 11] = [
        Self::Ping,
        Self::Write,
        Self::Uncontended,
        Self::ManyNames,
        Self::Handoff1,
        Self::Handoff4,
        Self::Handoff16,
        Self::Handoff64,
        Self::Handoff256,
        Self::Death,
        Self::Held,
    ];

    /// For people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ping => "ping (floor)",
            Self::Write => "write (floor)",
            Self::Uncontended => "acquire + release",
            Self::ManyNames => "64 tasks, own names",
            Self::Handoff1 => "handoff, 1 waiting",
            Self::Handoff4 => "handoff, 4 waiting",
            Self::Handoff16 => "handoff, 16 waiting",
            Self::Handoff64 => "handoff, 64 waiting",
            Self::Handoff256 => "handoff, 256 waiting",
            Self::Death => "after a dead holder's lease",
            Self::Held => "1,000 held locks, CPU per lock",
        }
    }

    /// Whether it is made by the store's own client.
    pub(crate) const fn is_floor(self) -> bool {
        matches!(self, Self::Ping | Self::Write)
    }

    /// Whether it has to wait for leases.
    pub(crate) const fn is_slow(self) -> bool {
        matches!(self, Self::Death | Self::Held)
    }

    /// Makes it for about `slice`. `None` where the store has nothing to be measured.
    pub(crate) async fn make(
        self,
        subject: &Arc<Subject>,
        slice: Duration,
    ) -> Result<Option<Sample>, Error> {
        match self {
            Self::Ping => Ok(floor::ping(subject, slice).await),
            Self::Write => Ok(floor::write(subject, slice).await),
            Self::Uncontended => locks::measure(subject, slice, 1).await,
            Self::ManyNames => locks::measure(subject, slice, 64).await,
            Self::Handoff1 => handoff::measure(subject, slice, 1).await,
            Self::Handoff4 => handoff::measure(subject, slice, 4).await,
            Self::Handoff16 => handoff::measure(subject, slice, 16).await,
            Self::Handoff64 => handoff::measure(subject, slice, 64).await,
            Self::Handoff256 => handoff::measure(subject, slice, 256).await,
            Self::Death => death::measure(subject).await,
            Self::Held => held::measure(subject, slice).await,
        }
    }
}
