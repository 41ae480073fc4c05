//! Which names have a row, as far as this client knows.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use lock_core::LockName;

/// Names that had a row when they were last seen: rows stay when a lock is released, until a sweep.
/// What is out of date costs a round trip.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<HashSet<LockName>>);

impl Known {
    const MOST: usize = 10_000;

    pub(super) fn has(&self, name: &LockName) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    pub(super) fn note(&self, name: &LockName, is_there: bool) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_there {
            names.remove(name);
        } else if !names.contains(name) {
            if names.len() >= Self::MOST {
                names.clear();
            }
            names.insert(name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_knows_so_many_names_and_no_more() {
        let known = Known::default();
        let name = |number: usize| LockName::new(format!("job {number}")).unwrap();
        for number in 0..=Known::MOST {
            known.note(&name(number), true);
            assert!(known.has(&name(number)));
        }
        assert!(!known.has(&name(0)));
        known.note(&name(Known::MOST), false);
        assert!(!known.has(&name(Known::MOST)));
    }
}
