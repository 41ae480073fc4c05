//! The kit's etcd.

use std::{process::Stdio, time::Instant};

use servers::{
    ClientCertificates, Data, Etcd, EtcdOptions, KitError, Process, Server as _, is_alive,
};

/// Both numbers of an answer's header.
async fn cluster_and_revision(etcd: &Etcd) -> (u64, u64) {
    let text = etcd.ctl(&["get", "k", "-w", "json"]).await.unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let number = |name: &str| json["header"][name].as_u64().unwrap();
    (number("cluster_id"), number("revision"))
}

#[tokio::test]
async fn two_at_once_are_two_servers() {
    let start = Instant::now();
    let (one, other) =
        tokio::join!(Etcd::single(EtcdOptions::new()), Etcd::single(EtcdOptions::new()));
    println!("two etcd up in {:?}", start.elapsed());
    let (one, other) = (one.unwrap(), other.unwrap());
    one.ctl(&["put", "k", "v"]).await.unwrap();
    assert_eq!(one.ctl(&["get", "k", "--print-value-only"]).await.unwrap(), "v");
    assert_eq!(other.ctl(&["get", "k"]).await.unwrap(), "");
    assert!(one.members()[0].metric("etcd_debugging_mvcc_keys_total").await.unwrap() >= 1.0);
    let lease = one.ctl(&["lease", "grant", "1"]).await.unwrap();
    assert!(lease.contains("TTL(1s)"), "the timers are fast: {lease}");
}

#[tokio::test]
async fn restarts_with_and_without_data() {
    let mut etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    etcd.ctl(&["put", "k", "v"]).await.unwrap();
    let (cluster, _) = cluster_and_revision(&etcd).await;
    let pid = etcd.members()[0].process().pid().unwrap();
    etcd.member_mut(0).kill().unwrap();
    assert!(!is_alive(pid));
    let start = Instant::now();
    etcd.member_mut(0).restart(Data::Keep).await.unwrap();
    println!("etcd restarted in {:?}", start.elapsed());
    assert_eq!(etcd.ctl(&["get", "k", "--print-value-only"]).await.unwrap(), "v");
    etcd.member_mut(0).restart(Data::Lose).await.unwrap();
    assert_eq!(cluster_and_revision(&etcd).await, (cluster, 1));
}

#[tokio::test]
async fn a_cluster_survives_its_leader_and_not_its_majority() {
    let start = Instant::now();
    let mut etcd = Etcd::three(EtcdOptions::new()).await.unwrap();
    println!("etcd x3 up in {:?}", start.elapsed());
    let first = etcd.leader().await.unwrap();
    etcd.member_mut(first).kill().unwrap();
    let start = Instant::now();
    let second = etcd.leader().await.unwrap();
    println!("another leader after {:?}", start.elapsed());
    assert_ne!(first, second);
    etcd.ctl(&["put", "k", "v"]).await.unwrap();

    let lose = etcd.member_mut(first).restart(Data::Lose).await.unwrap_err();
    assert!(matches!(lose, KitError::Unexpected(_)), "{lose:?}");
    etcd.members()[second].pause().unwrap();
    etcd.ctl(&["put", "k", "w", "--command-timeout=1s"]).await.unwrap_err();
    etcd.member_mut(first).restart(Data::Keep).await.unwrap();
    let third = etcd.leader().await.unwrap();
    assert_ne!(second, third, "the old leader is paused");
    etcd.members()[second].resume().unwrap();
    etcd.wait_healthy().await.unwrap();
    etcd.ctl(&["put", "k", "x"]).await.unwrap();
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

#[tokio::test]
async fn a_full_quota_refuses_writes() {
    let etcd = Etcd::single(EtcdOptions::new().quota_bytes(2_000_000)).await.unwrap();
    let value = "x".repeat(100_000);
    let mut refused = None;
    for i in 0..100 {
        if let Err(error) = etcd.ctl(&["put", &i.to_string(), &value]).await {
            refused = Some(error);
            break;
        }
    }
    let refused = refused.expect("two megabytes are soon full");
    assert!(refused.to_string().contains("space exceeded"), "{refused}");
}

#[tokio::test]
async fn tls_and_users() {
    let options = EtcdOptions::new().tls(ClientCertificates::Required).root_password("sesame");
    let etcd = Etcd::three(options).await.unwrap();
    etcd.ctl(&["put", "k", "v"]).await.unwrap();
    assert_eq!(etcd.ctl(&["get", "k", "--print-value-only"]).await.unwrap(), "v");
    let run = |remove: &str| {
        let mut command = etcd.ctl_command().unwrap();
        command.args(["get", "k", "--command-timeout=1s", "--dial-timeout=1s"]).env_remove(remove);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap()
    };
    assert!(run("NOTHING").status.success());
    assert!(!run("ETCDCTL_CERT").status.success());
}

#[tokio::test]
async fn users_without_tls() {
    let etcd = Etcd::single(EtcdOptions::new().root_password("sesame")).await.unwrap();
    etcd.ctl(&["put", "k", "v"]).await.unwrap();
    let mut command = etcd.ctl_command().unwrap();
    let output = command.args(["get", "k"]).env_remove("ETCDCTL_USER").output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("user name is empty"));
}
