//! How each measurement is made.

mod cut;
mod ends;
mod floor;
mod handoff;
mod held;
mod locks;

use std::{sync::Arc, time::Duration};

use lock_core::Error;

pub use self::ends::Holder;
pub(crate) use self::{ends::Ends, held::Held};
use crate::{
    measurement::{MANY, Measure},
    sample::Sample,
    store::Subject,
};

/// A measurement of every round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Ping,
    Write,
    Pair,
    Pairs,
    Locks(usize),
    Handoff(usize, Measure),
}

impl Step {
    pub(crate) const ALL: [Self; 11] = [
        Self::Ping,
        Self::Write,
        Self::Pair,
        Self::Pairs,
        Self::Locks(1),
        Self::Locks(MANY),
        Self::Handoff(1, Measure::Handoff1),
        Self::Handoff(4, Measure::Handoff4),
        Self::Handoff(16, Measure::Handoff16),
        Self::Handoff(64, Measure::Handoff64),
        Self::Handoff(256, Measure::Handoff256),
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Ping => Measure::Ping.title(),
            Self::Write => Measure::Write.title(),
            Self::Pair => Measure::Pair.title(),
            Self::Pairs => Measure::Pairs.title(),
            Self::Locks(1) => Measure::Uncontended.title(),
            Self::Locks(_) => Measure::ManyNames.title(),
            Self::Handoff(_, measure) => measure.title(),
        }
    }

    /// The measurements that this step makes.
    pub(crate) fn measures(self) -> Vec<Measure> {
        match self {
            Self::Ping => vec![Measure::Ping],
            Self::Write => vec![Measure::Write],
            Self::Pair => vec![Measure::Pair],
            Self::Pairs => vec![Measure::Pairs],
            Self::Locks(1) => vec![Measure::Acquire, Measure::Uncontended],
            Self::Locks(_) => vec![Measure::ManyNames],
            Self::Handoff(_, measure) => vec![measure],
        }
    }

    /// Its share of the time. Many waiters need time to start; a bare command needs little.
    pub(crate) const fn weight(self) -> f64 {
        match self {
            Self::Ping | Self::Write | Self::Pair => 0.5,
            Self::Pairs | Self::Locks(_) => 1.0,
            Self::Handoff(..) => 1.5,
        }
    }

    /// Measures for about `slice`. Returns nothing if this cannot be measured on the store.
    pub(crate) async fn make(
        self,
        subject: &Arc<Subject>,
        slice: Duration,
    ) -> Result<Vec<(Measure, Sample)>, Error> {
        let one = |measure, sample: Option<Sample>| {
            sample.map(|sample| (measure, sample)).into_iter().collect()
        };
        Ok(match self {
            Self::Ping => one(Measure::Ping, floor::ping(subject, slice).await),
            Self::Write => one(Measure::Write, floor::write(subject, slice).await),
            Self::Pair => one(Measure::Pair, floor::pair(subject, slice).await),
            Self::Pairs => one(Measure::Pairs, floor::pairs(subject, slice).await),
            Self::Locks(tasks) => locks::measure(subject, slice, tasks).await?,
            Self::Handoff(waiting, measure) => {
                one(measure, handoff::measure(subject, slice, waiting).await?)
            }
        })
    }
}
