//! The numbers in the keys of this client's entries.
//!
//! etcd's own tools put the number of the entry's lease there, which is another each time. But etcd keeps all past
//! keys until it is compacted, and walks over all of them to find the entries of a name: so a lock becomes slower
//! each time it is held. The create revision tells two entries of one key apart, so that a client uses a few numbers
//! of its own again and again.

use std::{collections::HashSet, sync::Arc};

use lock_core::{Env as _, LockName, Mode, Mutex, SystemEnv};

use super::layout::KeyLayout;

/// The keys that are in use.
#[derive(Clone, Debug)]
pub(crate) struct Seats(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Drawn at random. Two clients that draw the same are in each other's way, and no more.
    first: i64,
    taken: Mutex<HashSet<String>>,
}

/// A key that no other entry of this client uses.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) key: String,
    /// `None` where another of the same key frees it.
    seats: Option<Seats>,
}

impl Seats {
    pub(crate) fn new() -> Self {
        // Positive, as a lease is, and with room to count.
        let first = (SystemEnv.random() as i64 & i64::MAX >> 1 | 1 << 32) & !0xffff_ffff;
        Self(Arc::new(Shared { first, taken: Mutex::default() }))
    }

    /// The first key of a name that is free. It may still be in etcd where an outcome is not known: every transaction
    /// that makes an entry compares.
    pub(crate) fn take(&self, layout: &KeyLayout, name: &LockName, mode: Mode) -> Arc<Seat> {
        let mut taken = self.0.taken.lock();
        let mut number = self.0.first;
        let mut key = layout.entry(name, mode, number);
        while taken.contains(&key) {
            number += 1;
            key = layout.entry(name, mode, number);
        }
        taken.insert(key.clone());
        Arc::new(Seat { key, seats: Some(self.clone()) })
    }

    /// The key of an entry that was found: no other entry is to use it meanwhile.
    pub(crate) fn found(&self, key: String) -> Arc<Seat> {
        let is_new = self.0.taken.lock().insert(key.clone());
        Arc::new(Seat { key, seats: is_new.then(|| self.clone()) })
    }

    /// A key that nobody has used: for a reader that found another in its own. Readers whose releases failed stay there
    /// to the ends of their leases, and keep out no other reader.
    pub(crate) fn elsewhere(&self, layout: &KeyLayout, name: &LockName, mode: Mode) -> Arc<Seat> {
        let number = (SystemEnv.random() as i64 & i64::MAX).max(1);
        self.found(layout.entry(name, mode, number))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(seats) = &self.seats {
            seats.0.taken.lock().remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_key_is_used_again_when_its_entry_has_gone_and_not_before() {
        let (seats, layout) = (Seats::new(), KeyLayout::new("p/"));
        let name = LockName::new("job").unwrap();
        let take = |seats: &Seats| seats.take(&layout, &name, Mode::Exclusive);
        let one = take(&seats);
        let two = take(&seats);
        assert_ne!(one.key, two.key);
        let held = Arc::clone(&one);
        let key = one.key.clone();
        drop(one);
        assert_ne!(take(&seats).key, key);
        drop(held);
        assert_eq!(take(&seats).key, key);
        assert_eq!(layout.read(&key).unwrap().name, name);
        assert_ne!(take(&Seats::new()).key, key);
        assert_ne!(seats.take(&layout, &name, Mode::Shared).key, key);
    }
}
