//! The cases: one list for all stores.
//!
//! A case is an `async fn` of a [`&Setting`](Setting) that panics if the store breaks a promise.
//! Its `requirement` is the part of the contract that it tries; [`promise`] has each in words.

mod cancellation;
mod client;
mod election;
mod fairness;
mod hand_over;
mod latches;
mod names;
mod operators;
mod ownership;
mod processes;
mod readers;
mod records;
mod runtimes;
mod several;
mod several_processes;
mod tokens;
mod traffic;
mod validity;
mod waiting;

use lock_core::{BoxFuture, Guarantees};

use crate::{
    harness::{Harness, Need},
    setting::Setting,
    sys::PAUSES,
};

/// The requirements of the contract: safety (S) and liveness (L).
pub const REQUIREMENTS: [&str; 13] =
    ["S1", "S2", "S3", "S4", "S5", "S6", "S7", "L1", "L2", "L3", "L4", "L5", "L6"];

/// What the contract promises by a requirement.
#[must_use]
pub fn promise(requirement: &str) -> &'static str {
    match requirement {
        "S1" => "exclusion: two guards of one name are never valid at the same time",
        "S2" => "tokens: they increase over the grants of a name",
        "S3" => "validity: a guard is never valid for longer than the store keeps the lock",
        "S4" => "ownership: only the owner renews or releases a lock",
        "S5" => "no resurrection: a lost lock is not renewed, and a lost guard stays lost",
        "S6" => "unknown outcomes: an attempt that was given up leaves no lock and no queue entry",
        "S7" => "records: only the holder of a lock writes its record, which outlives the lock",
        "L1" => "crash: the lock of a dead holder is free within its lease and a stated slack",
        "L2" => "waking: a release serves a waiter, by push or by polling",
        "L3" => "fairness: queue entries are served first come, first served",
        "L4" => "traffic: the requests for a handoff do not grow with the number of waiters",
        "L5" => "loss: a holder learns of the loss at the latest when the validity ends",
        "L6" => "close: it releases everything and refuses new work",
        "names" => "names: a store tells all accepted names apart, and refuses all others",
        _ => "operation: what operators see is true, and what they do takes effect",
    }
}

/// One case.
#[derive(Clone)]
pub struct Case {
    /// Its unique name.
    pub name: &'static str,
    /// The requirement that it tries; see [`promise`].
    pub requirement: &'static str,
    /// What it needs. It applies to a store that has all of these.
    pub needs: &'static [Need],
    /// The case itself.
    pub run: fn(Setting) -> BoxFuture,
}

impl Case {
    /// Whether `listed` is the name of this case or of something that it needs.
    pub(crate) fn is_listed_as(&self, listed: &str) -> bool {
        self.name == listed || self.needs.iter().any(|need| need.name == listed)
    }
}

/// Makes a list of cases from functions with the same names. After the name stands what the case
/// needs.
macro_rules! cases {
    ($($requirement:literal $name:ident $($need:ident)*;)*) => {
        pub(super) fn all() -> Vec<$crate::cases::Case> {
            vec![$($crate::cases::Case {
                name: stringify!($name),
                requirement: $requirement,
                needs: &[$($crate::Need { name: stringify!($need), check: $need }),*],
                run: |setting| Box::pin(async move { $name(&setting).await }),
            }),*]
        }
    };
}
use cases;

/// Every case.
#[must_use]
pub fn all() -> Vec<Case> {
    let mut all = Vec::new();
    all.extend(tokens::all());
    all.extend(ownership::all());
    all.extend(validity::all());
    all.extend(waiting::all());
    all.extend(fairness::all());
    all.extend(traffic::all());
    all.extend(cancellation::all());
    all.extend(client::all());
    all.extend(names::all());
    all.extend(operators::all());
    all.extend(processes::all());
    all.extend(several::all());
    all.extend(several_processes::all());
    all.extend(election::all());
    all.extend(readers::all());
    all.extend(records::all());
    all.extend(latches::all());
    all.extend(hand_over::all());
    all.extend(runtimes::all());
    all
}

fn fair(promised: &Guarantees, _: &dyn Harness) -> Result<(), &'static str> {
    if promised.fair { Ok(()) } else { Err("the store does not promise fairness") }
}

fn pushes(promised: &Guarantees, _: &dyn Harness) -> Result<(), &'static str> {
    if promised.push { Ok(()) } else { Err("the store does not wake waiters: they poll") }
}

fn raises(promised: &Guarantees, _: &dyn Harness) -> Result<(), &'static str> {
    if promised.raise { Ok(()) } else { Err("the store cannot raise a token") }
}

fn hands_over(promised: &Guarantees, _: &dyn Harness) -> Result<(), &'static str> {
    if promised.hand_over { Ok(()) } else { Err("the store hands no held lock over") }
}

fn shared(promised: &Guarantees, _: &dyn Harness) -> Result<(), &'static str> {
    if promised.shared.holds() { Ok(()) } else { Err("the store has no shared locks") }
}

fn records(promised: &Guarantees, _: &dyn Harness) -> Result<(), &'static str> {
    if promised.record.holds() { Ok(()) } else { Err("the store does not promise to keep records") }
}

fn limited_readers(promised: &Guarantees, _: &dyn Harness) -> Result<(), &'static str> {
    promised.most_readers.map(drop).ok_or("the store has no limit for the number of readers")
}

fn processes(_: &Guarantees, harness: &dyn Harness) -> Result<(), &'static str> {
    if harness.reaches_processes() { Ok(()) } else { Err("other processes cannot reach the store") }
}

fn pauses(_: &Guarantees, _: &dyn Harness) -> Result<(), &'static str> {
    if PAUSES { Ok(()) } else { Err("this system cannot pause a process") }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_are_unique_and_every_requirement_has_a_case() {
        let all = super::all();
        let mut names: Vec<_> = all.iter().map(|case| case.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for wanted in super::REQUIREMENTS {
            assert!(all.iter().any(|case| case.requirement == wanted), "nothing tries {wanted}");
        }
    }
}
