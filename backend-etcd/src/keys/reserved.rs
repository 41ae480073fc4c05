//! The numbers that this client uses in the keys of its entries.
//!
//! etcd's own tools use the lease of the entry as its number, so each entry has a new key. But etcd
//! keeps all past keys until they are compacted, and walks over all keys of a name to find its
//! entries. So an acquire would become slower each time. A leasehold client therefore reuses a few
//! numbers. The create revision distinguishes two entries that had the same key.

use std::{collections::HashSet, sync::Arc};

use lock_core::{Env as _, LockName, Mode, Mutex, SystemEnv};

use super::layout::KeyLayout;

/// The keys that entries of this client use now.
#[derive(Clone, Debug)]
pub(crate) struct ReservedKeys(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Random. Two clients with the same number block each other's keys, which costs time only.
    first: i64,
    taken: Mutex<HashSet<String>>,
}

/// A key that no other entry of this client uses.
#[derive(Debug)]
pub(crate) struct ReservedKey {
    pub(crate) key: String,
    /// `None` if another reservation of the same key frees it.
    frees: Option<ReservedKeys>,
}

impl ReservedKeys {
    pub(crate) fn new() -> Self {
        // Positive, as a lease is, and with room to count.
        let first = (SystemEnv.random() as i64 & i64::MAX >> 1 | 1 << 32) & !0xffff_ffff;
        Self(Arc::new(Shared { first, taken: Mutex::default() }))
    }

    /// Reserves the first free key of a name. After an unknown outcome the key may still exist in
    /// etcd, so each transaction that makes an entry compares it.
    pub(crate) fn next(&self, layout: &KeyLayout, name: &LockName, mode: Mode) -> Arc<ReservedKey> {
        let mut taken = self.0.taken.lock();
        let mut number = self.0.first;
        let mut key = layout.entry(name, mode, number);
        while taken.contains(&key) {
            number += 1;
            key = layout.entry(name, mode, number);
        }
        taken.insert(key.clone());
        Arc::new(ReservedKey { key, frees: Some(self.clone()) })
    }

    /// Reserves the key of an entry that was found in etcd.
    pub(crate) fn existing(&self, key: String) -> Arc<ReservedKey> {
        let is_new = self.0.taken.lock().insert(key.clone());
        Arc::new(ReservedKey { key, frees: is_new.then(|| self.clone()) })
    }

    /// Reserves a random key, for a reader whose next key exists in etcd. A reader whose release
    /// failed leaves its entry there until its lease ends, and must not block other readers.
    pub(crate) fn random(
        &self,
        layout: &KeyLayout,
        name: &LockName,
        mode: Mode,
    ) -> Arc<ReservedKey> {
        let number = (SystemEnv.random() as i64 & i64::MAX).max(1);
        self.existing(layout.entry(name, mode, number))
    }
}

impl Drop for ReservedKey {
    fn drop(&mut self) {
        if let Some(keys) = &self.frees {
            keys.0.taken.lock().remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_key_is_reused_only_after_its_entry_has_gone() {
        let (keys, layout) = (ReservedKeys::new(), KeyLayout::new("p/"));
        let name = LockName::new("job").unwrap();
        let next = |keys: &ReservedKeys| keys.next(&layout, &name, Mode::Exclusive);
        let one = next(&keys);
        let two = next(&keys);
        assert_ne!(one.key, two.key);
        let held = Arc::clone(&one);
        let key = one.key.clone();
        drop(one);
        assert_ne!(next(&keys).key, key);
        drop(held);
        assert_eq!(next(&keys).key, key);
        assert_eq!(layout.read(&key).unwrap().name, name);
        assert_ne!(next(&ReservedKeys::new()).key, key);
        assert_ne!(keys.next(&layout, &name, Mode::Shared).key, key);
    }
}
