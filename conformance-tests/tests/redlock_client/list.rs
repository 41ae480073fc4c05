//! The guards of Redlock's client that are left out, one at a time; read by `build.rs`, too.

#[path = "list/behind.rs"]
mod behind;
#[path = "list/votes.rs"]
mod votes;

use super::mutant::Mutant;

pub(crate) fn redlock() -> Vec<Mutant> {
    [votes::GUARDS, behind::GUARDS].concat()
}
