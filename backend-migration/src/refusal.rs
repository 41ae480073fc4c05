//! Refusals: of an operator's step, and of a process that starts two phases away from another.

use std::time::Duration;

use lock_core::{Error, ErrorKind, Holder};

use crate::{member::Member, phase::Phase};

/// Why the next step has to wait.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}: {}", list(.who))]
#[non_exhaustive]
pub struct Refusal {
    /// The obstacle.
    pub why: String,
    /// The processes that are this obstacle.
    pub who: Vec<Member>,
}

fn list(members: &[Member]) -> String {
    let names: Vec<_> = members.iter().map(|member| format!("{:?}", member.label)).collect();
    names.join(", ")
}

/// A process in `phase` must not start beside the holder of a record in the phase `other`.
pub(crate) fn of_entry(phase: Phase, other: Option<Phase>, holder: &Holder) -> Error {
    let (is, mend) = match other {
        Some(_) => ("two phases away", "restart that one in phase both"),
        None => ("in a migration with another store", "end one of the two migrations first"),
    };
    let left = Duration::from_millis(holder.remaining.as_millis() as u64);
    let message = format!(
        "this process cannot be in phase {phase} while {:?} is {is}; {mend}, or if it has ended, wait for \
         {} until its record has",
        holder.label.as_str(),
        humantime::format_duration(left)
    );
    Error::new(ErrorKind::Config, message).at("migration", "enter")
}
