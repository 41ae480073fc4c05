//! The keys of the store.

use std::sync::Arc;

use lock_core::{LockName, OwnerId};

use crate::{
    keys::slots::{number_in, slot_of, slot_of_key},
    settings::Topology,
};

/// How many buckets the names of a cluster are divided into. All clients must use the same number.
pub(crate) const CLUSTER_BUCKETS: u16 = 64;

/// One part of the names. Its keys share a slot of a cluster, an epoch record and a watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Bucket(pub(crate) u16);

impl Bucket {
    /// The only bucket of a store on one server.
    pub(crate) const FIRST: Self = Self(0);

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }

    /// The slot of the bucket in a cluster.
    pub(crate) fn slot(self) -> u16 {
        slot_of(&self.0.to_string())
    }
}

/// What a key keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The epoch record, a hash.
    Epoch,
    /// A lock, a tombstone, or the record of a name.
    Text,
    /// A list, or a sorted set on a node of Redlock.
    Queue,
    /// The entries of a queue, a hash.
    Entries,
    /// The highest token that a fence has admitted.
    Token,
}

/// Makes keys. All begin with `PREFIX:{BUCKET}:`, so that in a cluster the keys of a bucket share a
/// slot. The first pair of braces counts, so braces in a name mean nothing.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: Arc<str>,
    bases: Arc<[String]>,
    /// Pushes go to sharded channels, which only the node of the bucket's slot carries.
    sharded: bool,
}

impl Keys {
    /// The keys of a store on one server.
    pub(crate) fn new(prefix: &str) -> Self {
        Self::spread(prefix, 1, false)
    }

    /// The keys of a store with this topology.
    pub(crate) fn in_topology(prefix: &str, topology: &Topology) -> Self {
        match topology {
            Topology::Single(_) | Topology::Sentinel(_) => Self::new(prefix),
            Topology::Cluster(_) => Self::spread(prefix, CLUSTER_BUCKETS, true),
        }
    }

    fn spread(prefix: &str, buckets: u16, sharded: bool) -> Self {
        let bases = (0..buckets).map(|bucket| format!("{prefix}:{{{bucket}}}:")).collect();
        Self { prefix: prefix.into(), bases, sharded }
    }

    /// Whether pushes go to sharded channels.
    pub(crate) fn are_sharded(&self) -> bool {
        self.sharded
    }

    pub(crate) fn buckets(&self) -> impl Iterator<Item = Bucket> + use<> {
        (0..self.bases.len()).map(|bucket| Bucket(bucket as u16))
    }

    /// The bucket of a name, by its FNV-1a hash. This must never change.
    pub(crate) fn bucket(&self, name: &LockName) -> Bucket {
        if self.bases.len() == 1 {
            return Bucket::FIRST;
        }
        let hash = name.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // The low bits of FNV depend only on the low bits of the text.
        Bucket(((hash ^ (hash >> 32)) % self.bases.len() as u64) as u16)
    }

    fn base(&self, bucket: Bucket) -> &str {
        &self.bases[bucket.index()]
    }

    pub(crate) fn epoch(&self, bucket: Bucket) -> String {
        format!("{}epoch", self.base(bucket))
    }

    pub(crate) fn lock(&self, name: &LockName) -> String {
        format!("{}lock:{name}", self.base(self.bucket(name)))
    }

    pub(crate) fn queue(&self, name: &LockName) -> String {
        format!("{}queue:{name}", self.base(self.bucket(name)))
    }

    /// The record of a name.
    pub(crate) fn record(&self, name: &LockName) -> String {
        format!("{}record:{name}", self.base(self.bucket(name)))
    }

    fn entries(&self, name: &LockName) -> String {
        format!("{}entries:{name}", self.base(self.bucket(name)))
    }

    fn tombstone(&self, bucket: Bucket, owner: OwnerId) -> String {
        format!("{}gone:{owner}", self.base(bucket))
    }

    /// The channel for one client's pushes about a bucket.
    pub(crate) fn channel(&self, bucket: Bucket, client: u128) -> String {
        // The scripts tell the kind of channel by this word.
        let word = if self.sharded { "spush" } else { "push" };
        format!("{}{word}:{client:032x}", self.base(bucket))
    }

    /// The record of a fence, in the slot of the user's key.
    pub(crate) fn fence(&self, key: &str) -> String {
        if !self.sharded {
            return format!("{}fence:{key}", self.base(Bucket::FIRST));
        }
        format!("{}:{{{}}}:fence:{key}", self.prefix, number_in(slot_of_key(key)))
    }

    /// What a key of this store keeps. `None` for a key of somebody else.
    pub(crate) fn content(&self, key: &str) -> Option<Content> {
        let rest = key.strip_prefix(&*self.prefix)?.strip_prefix(":{")?;
        let (_, rest) = rest.split_once("}:")?;
        Some(match rest.split(':').next()? {
            "epoch" => Content::Epoch,
            "lock" | "gone" | "record" => Content::Text,
            "queue" => Content::Queue,
            "entries" => Content::Entries,
            "fence" => Content::Token,
            _ => return None,
        })
    }

    /// The keys of a script about one name and one owner.
    pub(crate) fn of(&self, name: &LockName, owner: OwnerId) -> [String; 5] {
        let bucket = self.bucket(name);
        let (queue, entries) = (self.queue(name), self.entries(name));
        [self.epoch(bucket), self.lock(name), queue, entries, self.tombstone(bucket, owner)]
    }

    /// A pattern for SCAN that finds all locks of a bucket.
    pub(crate) fn all_locks(&self, bucket: Bucket) -> String {
        let mut pattern = String::with_capacity(self.base(bucket).len() + 8);
        for letter in self.base(bucket).chars() {
            if "*?[]\\^-".contains(letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        pattern + "lock:*"
    }

    /// The name in the key of a lock.
    pub(crate) fn name_of(&self, bucket: Bucket, key: &[u8]) -> Option<LockName> {
        let text = std::str::from_utf8(key).ok()?;
        LockName::new(text.strip_prefix(self.base(bucket))?.strip_prefix("lock:")?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back_from_its_key_whatever_is_in_it() {
        for keys in [Keys::new("a*b"), Keys::spread("a*b", CLUSTER_BUCKETS, true)] {
            for text in ["x", "lock:x", "{1}", "a b}{", "ü"] {
                let name = LockName::new(text).unwrap();
                let bucket = keys.bucket(&name);
                assert_eq!(keys.name_of(bucket, keys.lock(&name).as_bytes()), Some(name));
            }
        }
        assert_eq!(Keys::new("a*b").all_locks(Bucket::FIRST), "a\\*b:{0}:lock:*");
    }

    #[test]
    fn names_stay_in_their_buckets_and_fill_all() {
        let keys = Keys::spread("p", CLUSTER_BUCKETS, true);
        // The stores of users contain these.
        for (text, bucket) in [("a", 0), ("nightly-report", 13), ("job 1", 63)] {
            assert_eq!(keys.bucket(&LockName::new(text).unwrap()), Bucket(bucket), "{text}");
        }
        let mut filled = [0; CLUSTER_BUCKETS as usize];
        for number in 0..6400 {
            let name = LockName::new(&*format!("job {number}")).unwrap();
            filled[keys.bucket(&name).index()] += 1;
        }
        assert!(filled.iter().all(|names| (50..200).contains(names)), "{filled:?}");
    }
}
