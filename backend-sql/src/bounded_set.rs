//! A set of names or owners that a client remembers.

use std::{collections::HashSet, hash::Hash};

use lock_core::Mutex;

use crate::tunables::REMEMBERED_NAMES;

/// A set that forgets everything when it is full. To forget a member is safe: the client then needs
/// one more statement.
#[derive(Debug)]
pub(crate) struct BoundedSet<T>(Mutex<HashSet<T>>);

impl<T> Default for BoundedSet<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone + Eq + Hash> BoundedSet<T> {
    pub(crate) fn insert(&self, member: &T) {
        let mut members = self.0.lock();
        if !members.contains(member) {
            if members.len() >= REMEMBERED_NAMES {
                members.clear();
            }
            members.insert(member.clone());
        }
    }

    pub(crate) fn contains(&self, member: &T) -> bool {
        self.0.lock().contains(member)
    }

    /// Returns whether it was a member.
    pub(crate) fn remove(&self, member: &T) -> bool {
        self.0.lock().remove(member)
    }
}
