//! Which keys there are.

use lock_core::{LockName, OwnerId};

/// Makes keys. All begin with `PREFIX:{0}:`, so that in a cluster they would share a slot: the first
/// pair of braces counts, and braces in a name mean nothing.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    base: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { base: format!("{prefix}:{{0}}:") }
    }

    pub(crate) fn epoch(&self) -> String {
        format!("{}epoch", self.base)
    }

    pub(crate) fn lock(&self, name: &LockName) -> String {
        format!("{}lock:{name}", self.base)
    }

    pub(crate) fn queue(&self, name: &LockName) -> String {
        format!("{}queue:{name}", self.base)
    }

    pub(crate) fn places(&self, name: &LockName) -> String {
        format!("{}places:{name}", self.base)
    }

    pub(crate) fn tombstone(&self, owner: OwnerId) -> String {
        format!("{}gone:{owner}", self.base)
    }

    /// Where one client's pushes go.
    pub(crate) fn channel(&self, client: u128) -> String {
        format!("{}push:{client:032x}", self.base)
    }

    pub(crate) fn fence(&self, key: &str) -> String {
        format!("{}fence:{key}", self.base)
    }

    /// The keys of a script about one name and one owner.
    pub(crate) fn of(&self, name: &LockName, owner: OwnerId) -> [String; 5] {
        let (queue, places) = (self.queue(name), self.places(name));
        [self.epoch(), self.lock(name), queue, places, self.tombstone(owner)]
    }

    /// A pattern for SCAN that finds all locks.
    pub(crate) fn all_locks(&self) -> String {
        let mut pattern = String::with_capacity(self.base.len() + 8);
        for letter in self.base.chars() {
            if "*?[]\\^-".contains(letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        pattern + "lock:*"
    }

    /// The name in a lock's key.
    pub(crate) fn name_of(&self, key: &[u8]) -> Option<LockName> {
        let text = std::str::from_utf8(key).ok()?;
        LockName::new(text.strip_prefix(&self.base)?.strip_prefix("lock:")?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back_from_its_key_whatever_is_in_it() {
        let keys = Keys::new("a*b");
        for text in ["x", "lock:x", "{1}", "a b}{", "ü"] {
            let name = LockName::new(text).unwrap();
            assert_eq!(keys.name_of(keys.lock(&name).as_bytes()), Some(name));
        }
        assert_eq!(keys.all_locks(), "a\\*b:{0}:lock:*");
    }
}
