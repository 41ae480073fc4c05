//! Who held the victim's lock around a fault, for a picture.

use std::time::Duration;

use lock_core::Instant;
use serde::{Deserialize, Serialize};

use crate::history::{Holds, What};
use crate::proof::trial::findings::Shown;

/// What is shown before the fault and after it.
const AROUND: Duration = Duration::from_millis(1_500);
/// A picture of more says no more.
const MOST: usize = 200;

/// Times are in milliseconds since the first of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timeline {
    /// The lock.
    pub name: String,
    /// From the fault's begin to its end.
    pub fault: [f64; 2],
    /// Who believed to hold it.
    pub holds: Vec<Held>,
    /// Who was told of a loss.
    pub losses: Vec<Told>,
}

/// A belief.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Held {
    /// Whose; 0 is the victim.
    pub process: u32,
    /// The token that came with it.
    pub token: u64,
    /// Its begin.
    pub from: f64,
    /// Its end.
    pub until: f64,
}

/// The word of a loss.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Told {
    /// Who was told.
    pub process: u32,
    /// When.
    pub at: f64,
}

impl Timeline {
    /// Of a run; `None` where there was no fault.
    pub(crate) fn of(shown: &Shown) -> Option<Self> {
        let (name, began, over) = shown.around.as_ref()?;
        let holds = Holds::of(&shown.history);
        let attempts = holds.by_name.get(name)?;
        let near =
            |from: Instant, until: Instant| until + AROUND >= *began && from <= *over + AROUND;
        let held = attempts.iter().filter_map(|attempt| Some((attempt.op, attempt.hold.as_ref()?)));
        let held: Vec<_> =
            held.filter(|(_, hold)| near(hold.from, hold.until)).take(MOST).collect();
        let first = held.iter().map(|(_, hold)| hold.from).min()?.min(*began);
        let millis = |at: Instant| at.since(first).as_secs_f64() * 1e3;
        let losses = shown.history.events().iter().filter(|event| {
            let lost = matches!(event.what, What::Lost { .. });
            lost && held.iter().any(|(op, _)| *op == event.op)
        });
        Some(Self {
            name: name.as_str().to_owned(),
            fault: [millis(*began), millis(*over)],
            losses: losses.map(|it| Told { process: it.op.process, at: millis(it.at) }).collect(),
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
