//! The numbers in the keys of this client's places.
//!
//! etcd's own tools put the number of the place's lease there, which is another each time. But etcd keeps
//! every key that there ever was until it is compacted, and walks over all of them to find the places of a
//! name: so there a lock becomes slower with each time that it was held. Whose place a key is, its create
//! revision tells; so a client uses few numbers of its own again and again.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lock_core::{Env as _, LockName, SystemEnv};

use crate::layout::KeyLayout;

/// The keys that are in use.
#[derive(Clone, Debug)]
pub(crate) struct Seats(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// No other client is to draw the same; if one does, they are in each other's way, and no more.
    first: i64,
    taken: Mutex<HashSet<String>>,
}

/// A key that is used for no other place of this client.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) key: String,
    /// `None` for a place that was found, whoever has its key.
    seats: Option<Seats>,
}

impl Seats {
    pub(crate) fn new() -> Self {
        // Positive, as a lease is, and with room to count.
        let first = (SystemEnv.random() as i64 & i64::MAX >> 1 | 1 << 32) & !0xffff_ffff;
        Self(Arc::new(Shared { first, taken: Mutex::default() }))
    }

    fn taken(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first key of a name that is free. It may still be there where an outcome is not known: whoever
    /// makes a place has etcd compare.
    pub(crate) fn take(&self, layout: &KeyLayout, name: &LockName) -> Arc<Seat> {
        let mut taken = self.taken();
        let mut number = self.0.first;
        let mut key = layout.place(name, number);
        while taken.contains(&key) {
            number += 1;
            key = layout.place(name, number);
        }
        taken.insert(key.clone());
        Arc::new(Seat { key, seats: Some(self.clone()) })
    }
}

impl Seat {
    /// The key of a place that was found.
    pub(crate) fn found(key: String) -> Arc<Self> {
        Arc::new(Self { key, seats: None })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(seats) = &self.seats {
            seats.taken().remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_key_is_used_again_when_its_place_has_gone_and_not_before() {
        let (seats, layout) = (Seats::new(), KeyLayout::new("p/"));
        let name = LockName::new("job").unwrap();
        let one = seats.take(&layout, &name);
        let two = seats.take(&layout, &name);
        assert_ne!(one.key, two.key);
        let held = Arc::clone(&one);
        let key = one.key.clone();
        drop(one);
        assert_ne!(seats.take(&layout, &name).key, key);
        drop(held);
        assert_eq!(seats.take(&layout, &name).key, key);
        assert_eq!(layout.read(&key).unwrap().name, name);
        assert_ne!(Seats::new().take(&layout, &name).key, key);
    }
}
