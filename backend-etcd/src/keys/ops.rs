//! Conditions on the keys of a namespace, and reads of them.

use etcd_client::{Compare, CompareOp, GetOptions, SortOrder, SortTarget, TxnOp};
use lock_core::{LockName, OwnerId};

use super::layout::KeyLayout;

impl KeyLayout {
    /// The condition that no quarantine runs.
    pub(crate) fn not_quarantined(&self) -> Compare {
        Compare::version(self.quarantine(), CompareOp::Equal, 0)
    }

    /// The condition that an owner was not abandoned.
    pub(crate) fn not_abandoned(&self, owner: OwnerId) -> Compare {
        Compare::version(self.tombstone(owner), CompareOp::Equal, 0)
    }

    /// Reads the entry that stands first.
    pub(crate) fn get_first(&self, name: &LockName) -> TxnOp {
        let oldest = GetOptions::new()
            .with_prefix()
            .with_sort(SortTarget::Create, SortOrder::Ascend)
            .with_limit(1);
        TxnOp::get(self.entries(name), Some(oldest))
    }

    /// Reads the two newest entries.
    pub(crate) fn get_last_two(&self, name: &LockName) -> TxnOp {
        TxnOp::get(self.entries(name), Some(newest(2)))
    }

    /// Reads the entry before the one created at `created`.
    pub(crate) fn get_before(&self, name: &LockName, created: i64) -> TxnOp {
        let before = newest(1).with_max_create_revision(created - 1);
        TxnOp::get(self.entries(name), Some(before))
    }

    /// Reads the keys of up to `most` entries before the one created at `created`.
    pub(crate) fn count_before(&self, name: &LockName, created: i64, most: u32) -> TxnOp {
        let before = newest(most.into()).with_keys_only().with_max_create_revision(created - 1);
        TxnOp::get(self.entries(name), Some(before))
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

fn newest(most: i64) -> GetOptions {
    GetOptions::new()
        .with_prefix()
        .with_sort(SortTarget::Create, SortOrder::Descend)
        .with_limit(most)
}
