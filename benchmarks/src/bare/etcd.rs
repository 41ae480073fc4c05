//! Bare requests to etcd.

use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};

const VALUE: &str = "{\"owner\":\"0123456789abcdef0123456789abcdef\",\"label\":\"some.host:12345\",\
                         \"offset\":1760000000000000,\"granted\":true,\"kept\":false}";

/// Bare requests in place of a lock.
#[derive(Clone)]
pub struct Etcd(pub Client);

impl Etcd {
    /// What a place of ours holds is as large as this.
    pub const VALUE: &'static str = VALUE;

    /// One put.
    pub async fn put(self) {
        self.0.kv_client().put("bare", VALUE, None).await.unwrap();
    }

    /// A transaction with one condition that puts, and one that deletes.
    pub async fn two_transactions(self) {
        let mut kv = self.0.kv_client();
        let free = Compare::version("bare/lock", CompareOp::Equal, 0);
        let take = Txn::new().when([free]).and_then([TxnOp::put("bare/lock", VALUE, None)]);
        assert!(kv.txn(take).await.unwrap().succeeded());
        let held = Compare::version("bare/lock", CompareOp::Equal, 1);
        let give = Txn::new().when([held]).and_then([TxnOp::delete("bare/lock", None)]);
        assert!(kv.txn(give).await.unwrap().succeeded());
    }
}
