//! Shared locks: readers and writers.

mod grants;
mod processes;
mod waiting;

use lock_core::{Mode, ReleaseOptions};

use super::Case;
use crate::setting::Setting;

pub(super) fn all() -> Vec<Case> {
    [grants::all(), waiting::all(), processes::all()].concat()
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
