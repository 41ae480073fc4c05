//! The guards of Redlock's client that are left out, one at a time; read by `build.rs`, too.

#[path = "list/ends.rs"]
mod ends;
#[path = "list/tokens.rs"]
mod tokens;
#[path = "list/votes.rs"]
mod votes;

use super::mutant::Mutant;

pub(crate) fn redlock() -> Vec<Mutant> {
    [votes::GUARDS, tokens::GUARDS, ends::GUARDS].concat()
}
