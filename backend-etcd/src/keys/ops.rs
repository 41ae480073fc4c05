//! Conditions and reads that transactions use.

use etcd_client::{Compare, CompareOp, GetOptions, SortOrder, SortTarget, TxnOp};
use lock_core::{LockName, Mode, OwnerId};

use super::layout::KeyLayout;

impl KeyLayout {
    /// The condition that no quarantine runs.
    pub(crate) fn not_quarantined(&self) -> Compare {
        Compare::version(self.quarantine(), CompareOp::Equal, 0)
    }

    /// The condition that an owner was not abandoned: it has no tombstone.
    pub(crate) fn not_abandoned(&self, owner: OwnerId) -> Compare {
        Compare::version(self.tombstone(owner), CompareOp::Equal, 0)
    }

    /// The condition that no entry blocks a request of this mode.
    pub(crate) fn no_obstacle(&self, name: &LockName, mode: Mode) -> Compare {
        Compare::create_revision(self.entries(name), CompareOp::Equal, 0)
            .with_range(self.end_of_obstacles(name, mode))
    }

    /// The condition that all entries that block a request of this mode were created at `created`
    /// or later. etcd evaluates it to false if there is no such entry.
    pub(crate) fn no_earlier_obstacle(&self, name: &LockName, mode: Mode, created: i64) -> Compare {
        Compare::create_revision(self.entries(name), CompareOp::Greater, created - 1)
            .with_range(self.end_of_obstacles(name, mode))
    }

    /// The condition that a reader has no entry yet.
    pub(crate) fn has_no_reader_key(&self, owner: OwnerId) -> Compare {
        Compare::version(self.reader(owner), CompareOp::Equal, 0)
    }

    /// Reads the first entry.
    pub(crate) fn get_first(&self, name: &LockName) -> TxnOp {
        let oldest = GetOptions::new()
            .with_prefix()
            .with_sort(SortTarget::Create, SortOrder::Ascend)
            .with_limit(1);
        TxnOp::get(self.entries(name), Some(oldest))
    }

    /// Reads all entries.
    pub(crate) fn get_entries(&self, name: &LockName) -> TxnOp {
        TxnOp::get(self.entries(name), Some(GetOptions::new().with_prefix()))
    }

    /// Reads up to `most` of the newest entries that block a request of this mode.
    pub(crate) fn get_newest(&self, name: &LockName, mode: Mode, most: u32) -> TxnOp {
        TxnOp::get(self.entries(name), Some(self.newest(name, mode, most)))
    }

    /// Reads the last of these entries before the one created at `created`.
    pub(crate) fn get_before(&self, name: &LockName, mode: Mode, created: i64) -> TxnOp {
        let before = self.newest(name, mode, 1).with_max_create_revision(created - 1);
        TxnOp::get(self.entries(name), Some(before))
    }

    /// Reads the keys of up to `most` of these entries before the one created at `created`.
    pub(crate) fn keys_before(
        &self,
        name: &LockName,
        mode: Mode,
        created: i64,
        most: u32,
    ) -> TxnOp {
        let before = self.newest(name, mode, most).with_keys_only();
        TxnOp::get(self.entries(name), Some(before.with_max_create_revision(created - 1)))
    }

    fn newest(&self, name: &LockName, mode: Mode, most: u32) -> GetOptions {
        GetOptions::new()
            .with_range(self.end_of_obstacles(name, mode))
            .with_sort(SortTarget::Create, SortOrder::Descend)
            .with_limit(most.into())
    }

    /// Reads the key that names the entry of a reader.
    pub(crate) fn get_reader(&self, owner: OwnerId) -> TxnOp {
        TxnOp::get(self.reader(owner), None)
    }

    pub(crate) fn get_settings(&self) -> TxnOp {
        TxnOp::get(self.settings(), None)
    }

    pub(crate) fn get_quarantine(&self) -> TxnOp {
        TxnOp::get(self.quarantine(), None)
    }

    pub(crate) fn get_tombstone(&self, owner: OwnerId) -> TxnOp {
        TxnOp::get(self.tombstone(owner), None)
    }
}
