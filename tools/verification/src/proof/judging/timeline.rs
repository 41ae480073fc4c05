//! The holders of the victim's lock around a fault, for the picture of `leasehold-compare --proof`.

use std::time::Duration;

use lock_core::Instant;
use serde::{Deserialize, Serialize};

use crate::proof::trial::findings::RunData;
use conformance_tests::history::{Holds, What};

/// How much the picture shows before the fault and after it.
const AROUND: Duration = Duration::from_millis(1_500);
/// How many holds the picture shows at most.
const MOST: usize = 200;

/// The holders of one lock. Times are in milliseconds since the first hold.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timeline {
    /// The lock.
    pub name: String,
    /// The begin and the end of the fault.
    pub fault: [f64; 2],
    /// The holds.
    pub holds: Vec<Held>,
    /// The reported losses.
    pub losses: Vec<ReportedLoss>,
}

/// The time in which a guard was valid.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Held {
    /// The process; 0 is the victim.
    pub process: u32,
    /// The token of the guard.
    pub token: u64,
    /// Its begin.
    pub from: f64,
    /// Its end.
    pub until: f64,
}

/// A loss that a guard reported.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ReportedLoss {
    /// The process.
    pub process: u32,
    /// When the guard reported it.
    pub at: f64,
}

impl Timeline {
    /// The timeline of a run; `None` if there was no fault.
    pub(crate) fn of(data: &RunData) -> Option<Self> {
        let (name, began, over) = data.around.as_ref()?;
        let holds = Holds::of(&data.history);
        let attempts = holds.by_name.get(name)?;
        let near =
            |from: Instant, until: Instant| until + AROUND >= *began && from <= *over + AROUND;
        let held = attempts.iter().filter_map(|attempt| Some((attempt.op, attempt.hold.as_ref()?)));
        let held: Vec<_> =
            held.filter(|(_, hold)| near(hold.from, hold.until)).take(MOST).collect();
        let first = held.iter().map(|(_, hold)| hold.from).min()?.min(*began);
        let millis = |at: Instant| at.since(first).as_secs_f64() * 1e3;
        let losses = data.history.events().iter().filter(|event| {
            let lost = matches!(event.what, What::Lost { .. });
            lost && held.iter().any(|(op, _)| *op == event.op)
        });
        Some(Self {
            name: name.as_str().to_owned(),
            fault: [millis(*began), millis(*over)],
            losses: losses
                .map(|it| ReportedLoss { process: it.op.process, at: millis(it.at) })
                .collect(),
            holds: held
                .iter()
                .map(|(op, hold)| Held {
                    process: op.process,
                    token: hold.token.get(),
                    from: millis(hold.from),
                    until: millis(hold.until.max(hold.from)),
                })
                .collect(),
        })
    }
}
