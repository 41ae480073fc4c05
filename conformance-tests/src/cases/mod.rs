//! The cases: one list, the same for every store.
//!
//! A case is a function of a [`Setting`] that panics when the store does not keep what it promises. Its
//! `requirement` is the one of the contract that it tries: S1 exclusion, S2 tokens, S3 validity, S4
//! ownership, S5 no resurrection, S6 unknown outcomes; L1 crash, L2 waking, L3 fairness, L4 traffic,
//! L5 loss, L6 close. Besides: `names`, which a store must tell apart, and `operation`, what operators
//! see and do.

mod cancellation;
mod client;
mod election;
mod fairness;
mod names;
mod operators;
mod ownership;
mod processes;
mod readers;
mod several;
mod several_processes;
mod tokens;
mod traffic;
mod validity;
mod waiting;

use lock_core::{BoxFuture, Guarantees};

use crate::{
    harness::{Harness, Needs},
    setting::Setting,
};

/// The requirements of the contract: safety and liveness.
pub const REQUIREMENTS: [&str; 12] =
    ["S1", "S2", "S3", "S4", "S5", "S6", "L1", "L2", "L3", "L4", "L5", "L6"];

/// One case.
#[derive(Clone)]
pub struct Case {
    /// Its name, unique.
    pub name: &'static str,
    /// What of the contract it tries.
    pub requirement: &'static str,
    /// A word for the cases that belong together, by which a harness may skip them all; see
    /// [`Harness::skips`].
    pub group: Option<&'static str>,
    /// What it asks of a store.
    pub needs: Needs,
    /// The case itself.
    pub run: fn(Setting) -> BoxFuture,
}

impl Case {
    /// Whether it is meant by this name of a case or of a group.
    pub(crate) fn goes_by(&self, listed: &str) -> bool {
        self.name == listed || self.group == Some(listed)
    }

    /// The same in this group.
    fn of(mut self, group: &'static str) -> Self {
        self.group = Some(group);
        self
    }
}

/// Makes a list of cases from functions of their names.
macro_rules! cases {
    ($($requirement:literal $name:ident $needs:expr;)*) => {
        pub(super) fn all() -> Vec<$crate::cases::Case> {
            vec![$($crate::cases::Case {
                name: stringify!($name),
                requirement: $requirement,
                group: None,
                needs: $needs,
                run: |setting| Box::pin($name(setting)),
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
    all
}

fn always(_: &Guarantees, _: &dyn Harness) -> Result<(), &'static str> {
    Ok(())
}

fn fair(promised: &Guarantees, _: &dyn Harness) -> Result<(), &'static str> {
    if promised.fair { Ok(()) } else { Err("the store does not call itself fair") }
}

fn pushes(promised: &Guarantees, _: &dyn Harness) -> Result<(), &'static str> {
    if promised.push { Ok(()) } else { Err("waiters look at a rate of their own: none is woken") }
}

fn raises(promised: &Guarantees, _: &dyn Harness) -> Result<(), &'static str> {
    if promised.raise { Ok(()) } else { Err("the store cannot raise a token") }
}

fn processes(_: &Guarantees, harness: &dyn Harness) -> Result<(), &'static str> {
    if harness.reaches_processes() { Ok(()) } else { Err("the store lives in one process") }
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
