//! The layout of keys beside that of `etcdctl lock`, on a real server.

use backend_etcd::{EntryKey, KeyLayout};
use lock_core::{LockName, Mode};

use crate::support::single;

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_lock_writes_the_keys_that_the_layout_reads() {
    let etcd = single().await;
    let layout = KeyLayout::new("");
    let name = LockName::new("job").unwrap();

    // With a command, etcdctl runs it under the lock and then lets go; the key is in its environment.
    let lock = ["lock", "--ttl=5", "job", "--", "sh", "-c", "echo $ETCD_LOCK_KEY"];
    let said = etcd.ctl(&lock).await.unwrap();
    let key = said.trim();
    let EntryKey { name: read, number, mode } = layout.read(key).unwrap();
    assert_eq!((&read, mode), (&name, Mode::Exclusive));
    assert_eq!(layout.entry(&name, mode, number), key);
    assert!(key.starts_with(&layout.entries(&name)));
}
