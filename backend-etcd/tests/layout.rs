//! The layout of keys beside that of `etcdctl lock`, on a real server.
#![allow(clippy::unwrap_used)]

use backend_etcd::{KeyLayout, PlaceKey};
use conformance_tests::kit::{Etcd, EtcdOptions};
use lock_core::LockName;

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_lock_writes_the_keys_that_the_layout_reads() {
    let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let layout = KeyLayout::new("");
    let name = LockName::new("job").unwrap();

    // With a command, etcdctl runs it under the lock and then lets go; the key is in its environment.
    let lock = ["lock", "--ttl=5", "job", "--", "sh", "-c", "echo $ETCD_LOCK_KEY"];
    let said = etcd.ctl(&lock).await.unwrap();
    let key = said.trim();
    let PlaceKey { name: read, number } = layout.read(key).unwrap();
    assert_eq!(read, name);
    assert_eq!(layout.place(&name, number), key);
    assert!(key.starts_with(&layout.places(&name)));
}
