//! The kit's etcd.

use servers::{Etcd, EtcdOptions, Process};

/// Both numbers of an answer's header.
async fn cluster_and_revision(etcd: &Etcd) -> (u64, u64) {
    let text = etcd.ctl(&["get", "k", "-w", "json"]).await.unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let number = |name: &str| json["header"][name].as_u64().unwrap();
    (number("cluster_id"), number("revision"))
}

#[tokio::test]
async fn a_restored_snapshot_goes_back_under_the_same_cluster_id() {
    let folder = Process::folder_for(None).unwrap();
    let file = folder.path().join("snapshot");
    for is_cluster in [false, true] {
        let options = EtcdOptions::new();
        let etcd =
            if is_cluster { Etcd::three(options).await } else { Etcd::single(options).await };
        let mut etcd = etcd.unwrap();
        etcd.ctl(&["put", "k", "before"]).await.unwrap();
        let _ = std::fs::remove_file(&file);
        etcd.save_snapshot(&file).await.unwrap();
        let (cluster, revision) = cluster_and_revision(&etcd).await;
        for _ in 0..3 {
            etcd.ctl(&["put", "k", "after"]).await.unwrap();
        }
        assert_eq!(cluster_and_revision(&etcd).await, (cluster, revision + 3));
        etcd.restore_snapshot(&file).await.unwrap();
        assert_eq!(cluster_and_revision(&etcd).await, (cluster, revision));
        assert_eq!(etcd.ctl(&["get", "k", "--print-value-only"]).await.unwrap(), "before");
    }
}
