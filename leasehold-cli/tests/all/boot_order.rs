//! A job, and a client, that start before their store.

use std::process::Command;
use std::time::Duration;

use leasehold::ClientOptions;
use servers::{
    Data, Etcd, EtcdOptions, Mariadb, MariadbOptions, Member, Postgres, PostgresOptions, Redis,
    RedisOptions, Server, ZooKeeper, ZooKeeperMember, ZooKeeperOptions,
};

use crate::support::{LIMIT, Running};

fn leasehold(url: &str, args: &[&str]) -> Command {
    let mut command = crate::support::new_session();
    command.arg(crate::support::command()).env("LEASEHOLD_STORE", url).args(args);
    command
}

/// A job with `--wait`, and a client with a wait, meet a server that starts later. Without a wait,
/// and with a login that is refused, they fail at once.
async fn waits_for(server: &mut impl Server, url: &str, init: &[&str]) {
    let prepared = leasehold(url, &[&["init"], init].concat()).output().unwrap();
    assert!(prepared.status.success(), "{prepared:?}");
    let client = leasehold::connect(url).await.unwrap();
    server.kill().unwrap();

    let once = leasehold(url, &["run", "job", "--", "true"]).output().unwrap();
    let told = String::from_utf8(once.stderr).unwrap();
    assert_eq!(once.status.code(), Some(69), "{told}");
    let place = url.rsplit('@').next().unwrap().trim_start_matches(|c| c != '1');
    let place = place.split(['/', '?']).next().unwrap();
    assert!(told.contains(place), "{place} in {told}");
    assert!(told.contains("refused"), "{told}");

    let mut job = Running::start(&mut leasehold(url, &["run", "--wait", "60s", "a", "--", "true"]));
    let told = job.error();
    assert!(told.contains("cannot be reached yet") && told.contains(place), "{told}");
    let acquiring = tokio::spawn(client.lock("b").wait(LIMIT).acquire());
    let (to, options) = (url.to_owned(), ClientOptions::new());
    let connecting = tokio::spawn(leasehold::connect_within(to, options, LIMIT));
    server.restart(Data::Keep).await.unwrap();
    assert_eq!(job.code(), 0, "{:?}", job.stderr());
    acquiring.await.unwrap().unwrap().release().await.unwrap();
    let late = connecting.await.unwrap().unwrap();
    late.lock("c").acquire().await.unwrap().release().await.unwrap();
    late.close().await;
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_waits_for_a_redis_that_starts_later() {
    let mut server = Redis::start(RedisOptions::new().aof()).await.unwrap();
    let url = format!("redis://{}", server.address());
    // A Redis that restarts waits out its leases. This test is not about that.
    waits_for(&mut server, &url, &["--first-use", "--quarantine", "off"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_waits_for_a_postgres_that_starts_later() {
    let mut server = Postgres::start(PostgresOptions::new()).await.unwrap();
    let url = format!("postgres://postgres@{}/postgres", server.address());
    waits_for(&mut server, &url, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_waits_for_a_mysql_that_starts_later() {
    let mut server = Mariadb::start(MariadbOptions::new()).await.unwrap();
    let url = format!("mysql://root@{}/test?ssl-mode=disabled", server.address());
    waits_for(&mut server, &url, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_waits_for_an_etcd_that_starts_later() {
    let mut etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let url = format!("etcd://{}", etcd.endpoints()[0]);
    let server: &mut Member = etcd.member_mut(0);
    waits_for(server, &url, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_waits_for_a_zookeeper_that_starts_later() {
    let mut zookeeper = ZooKeeper::single(ZooKeeperOptions::new()).await.unwrap();
    let url = format!("zookeeper://{}", zookeeper.endpoints()[0]);
    let server: &mut ZooKeeperMember = zookeeper.member_mut(0);
    waits_for(server, &url, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_retry_cannot_mend_is_not_waited_for() {
    let server = Redis::start(RedisOptions::new().password("right")).await.unwrap();
    let url = format!("redis://:wrong@{}", server.address());
    let wait = Duration::MAX;
    let error = leasehold::connect_within(&url, ClientOptions::new(), wait).await.unwrap_err();
    assert_eq!(error.kind(), leasehold::ErrorKind::Auth, "{error}");
    let run = leasehold(&url, &["run", "--wait", "forever", "a", "--", "true"]).output().unwrap();
    assert_eq!(run.status.code(), Some(69), "{run:?}");
}
