//! Tries the guards of a list, one at a time; a part of each target that is made of a copy.

use super::{
    left_out::{SWITCH, run, try_all},
    mutant::Mutant,
};

/// Runs the case of each mutant in a process of its own in which the guard is left out: it has to fail.
/// `missing` are those whose text was not found when the copy was made.
pub(crate) fn is_missed(missing: &[&str], mutants: &[Mutant]) {
    // Such a process is not to start others.
    if std::env::var(SWITCH).is_ok() {
        return;
    }
    assert!(missing.is_empty(), "not in the crate, or more than once: {missing:#?}");
    let program = std::env::current_exe().unwrap();
    try_all(mutants.len(), |at| {
        let mutant = &mutants[at];
        let what = format!("{}: {}", mutant.requirement, mutant.name);
        (what, run(&program, mutant.case, Some(mutant.name)))
    });
}
