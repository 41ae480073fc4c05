//! Shared locks: readers and writers.

mod grants;
mod processes;
mod waiting;

use lock_core::{Guarantees, Mode, ReleaseOptions};

use super::{Case, always, cases};
use crate::{harness::Harness, setting::Setting};

/// The group of these cases: a store without shared locks lists this word in `Harness::skips`.
const GROUP: &str = "shared";

pub(super) fn all() -> Vec<Case> {
    let of_group =
        |case: &Case| case.name != "a_store_without_shared_locks_is_refused_by_the_client";
    let each = [grants::all(), waiting::all(), processes::all()].into_iter().flatten();
    each.map(|case| if of_group(&case) { case.in_group(GROUP) } else { case }).collect()
}

fn shares(promised: &Guarantees, _: &dyn Harness) -> Result<(), &'static str> {
    if promised.shared.holds() { Ok(()) } else { Err("the store has no shared locks") }
}

const NOW: ReleaseOptions<'static> = ReleaseOptions::new();

/// The requests of readers.
impl Setting {
    fn reader(&self, name: &lock_core::LockName) -> lock_core::Request {
        self.request(name).with_mode(Mode::Shared)
    }

    fn short_reader(&self, name: &lock_core::LockName) -> lock_core::Request {
        self.short_request(name).with_mode(Mode::Shared)
    }
}
