//! Records in Redis: what outlives a restart, what is lost, and how that is known.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Backend, ErrorKind, Grant, Init, RecordRead, RecordWrite, StoreTime, WriteOutcome,
};
use servers::{Data, Proxy, Redis, RedisOptions, Server as _, wait};
use tokio::sync::Mutex;
use verification::{latch_outage, late_hand_over, late_write};

use crate::support::{
    clusters, connect, first_use, granted, name, quarantined, replica_of, request, server_with, url,
};

const DAY: Duration = Duration::from_secs(86_400);
const LEASE: Duration = Duration::from_secs(20);

fn flushing() -> RedisOptions {
    RedisOptions::new().aof().line("appendfsync always")
}

async fn write(store: &Arc<dyn Backend>, value: &str) -> Grant {
    let grant = granted(&**store, &request("a", LEASE)).await;
    write_again(store, &grant, value, 1).await;
    grant
}

async fn write_again(store: &Arc<dyn Backend>, grant: &Grant, value: &str, number: u64) {
    let write = RecordWrite::new(value, DAY).unwrap().with_number(number);
    assert_eq!(store.write_record(grant, &write).await.unwrap(), WriteOutcome::Written);
}

async fn read(store: &Arc<dyn Backend>) -> RecordRead {
    store.read_record(&name("a")).await.unwrap()
}

fn value(read: &RecordRead) -> Option<&[u8]> {
    read.record.as_ref().map(|record| record.value.as_slice())
}

/// A client that asks for the lock notices what has happened to the server.
async fn noticed(server: &Redis) -> Arc<dyn Backend> {
    let store = connect(&url(server)).await;
    quarantined(&*store).await;
    store
}

#[tokio::test]
async fn a_server_that_flushes_each_write_keeps_records_over_a_restart() {
    let mut server = server_with(flushing()).await;
    let store = connect(&url(&server)).await;
    assert!(store.guarantees().record.holds(), "{}", store.guarantees().record);
    store.init(&Init::new().with_records_complete(true)).await.unwrap();
    write(&store, "done").await;
    let before = read(&store).await;
    assert_eq!((value(&before), before.complete_since), (Some(&b"done"[..]), StoreTime::EVER));
    let whole = server.aof_written().unwrap();
    assert_eq!(server.lose_power(whole).await.unwrap(), whole, "it had not written all");
    // Before any client has noticed it, and after that.
    let store = connect(&url(&server)).await;
    let unnoticed = read(&store).await;
    assert_eq!((unnoticed.complete_since, &unnoticed.record), (unnoticed.now, &before.record));
    let store = noticed(&server).await;
    let after = read(&store).await;
    assert_eq!((after.complete_since, after.record), (StoreTime::EVER, before.record));
    let ms: u64 = server.cli(&["PTTL", "leasehold:{0}:record:a"]).await.unwrap().parse().unwrap();
    assert!(ms <= 86_400_000 && ms > 86_000_000, "{ms}");
}

/// The server answers, and loses what it wrote last. An older record is left.
#[tokio::test]
async fn a_server_that_flushes_seldom_knows_that_records_may_be_lost() {
    let mut server = server_with(RedisOptions::new().aof()).await;
    let store = connect(&url(&server)).await;
    let why = store.guarantees().record.to_string();
    assert!(why.contains("set appendonly yes, appendfsync always"), "{why}");
    store.init(&Init::new().with_records_complete(true)).await.unwrap();
    let grant = write(&store, "started").await;
    let kept = server.aof_written().unwrap();
    write_again(&store, &grant, "done", 2).await;
    let before = read(&store).await;
    assert_eq!((value(&before), before.complete_since), (Some(&b"done"[..]), StoreTime::EVER));
    assert!(server.lose_power(kept).await.unwrap() > kept, "nothing was cut off");
    let after = read(&noticed(&server).await).await;
    assert_eq!(value(&after), Some(&b"started"[..]), "the fault did not happen");
    assert!(before.now < after.complete_since && after.complete_since <= after.now, "{after:?}");
}

/// The server's settings count at the time of the last write, not those after its restart.
#[tokio::test]
async fn what_was_written_without_a_flush_is_not_believed_after_a_restart_with_one() {
    let mut server = server_with(flushing()).await;
    let store = connect(&url(&server)).await;
    store.init(&Init::new().with_records_complete(true)).await.unwrap();
    let grant = write(&store, "started").await;
    for setting in [["appendfsync", "everysec"], ["no-appendfsync-on-rewrite", "yes"]] {
        server.cli(&["CONFIG", "SET", setting[0], setting[1]]).await.unwrap();
        let other = connect(&url(&server)).await;
        assert!(!other.guarantees().record.holds(), "{setting:?}");
        server.cli(&["CONFIG", "SET", "appendfsync", "always"]).await.unwrap();
    }
    // It still has `no-appendfsync-on-rewrite yes`.
    let other = connect(&url(&server)).await;
    write_again(&other, &grant, "done", 2).await;
    let before = read(&other).await;
    assert_eq!(before.complete_since, StoreTime::EVER);
    server.restart(Data::Keep).await.unwrap();
    let store = noticed(&server).await;
    assert!(store.guarantees().record.holds(), "{}", store.guarantees().record);
    assert!(read(&store).await.complete_since > before.now);
}

#[tokio::test]
async fn a_loss_of_all_data_is_known_until_an_operator_says_otherwise() {
    let server = server_with(flushing()).await;
    let store = connect(&url(&server)).await;
    store.init(&Init::new().with_records_complete(true)).await.unwrap();
    write(&store, "done").await;
    let before = read(&store).await;
    server.cli(&["FLUSHALL"]).await.unwrap();
    let unnoticed = read(&store).await;
    assert_eq!((unnoticed.record, unnoticed.complete_since), (None, unnoticed.now));
    quarantined(&*store).await;
    let noticed = read(&store).await;
    assert!(before.now < noticed.complete_since && noticed.complete_since <= noticed.now);
    // A first use says nothing of records.
    first_use(&*store).await;
    assert_eq!(read(&store).await.complete_since, noticed.complete_since);
    store.init(&Init::new().with_records_complete(true)).await.unwrap();
    assert_eq!(read(&store).await.complete_since, StoreTime::EVER);
    // `init` may be the first to notice.
    server.cli(&["FLUSHALL"]).await.unwrap();
    first_use(&*store).await;
    let by_init = read(&store).await.complete_since;
    assert!(by_init > noticed.now && read(&store).await.complete_since == by_init);
}

/// The replica flushes each write too, and lacks the last one when it is promoted.
#[tokio::test]
async fn a_promoted_replica_knows_that_it_may_lack_records() {
    let master = server_with(flushing()).await;
    let store = connect(&url(&master)).await;
    store.init(&Init::new().with_records_complete(true)).await.unwrap();
    let grant = write(&store, "started").await;
    let replica = replica_of(&master, flushing()).await;
    wait::until("the record on the replica", Duration::from_secs(60), async || {
        let there = replica.cli(&["EXISTS", "leasehold:{0}:record:a"]).await?;
        Ok((there == "1").then_some(()))
    })
    .await
    .unwrap();
    let replicated = connect(&url(&master)).await;
    assert!(!replicated.guarantees().record.holds());
    // What the replica gets no more.
    replica.cli(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    write_again(&store, &grant, "done", 2).await;
    let before = read(&store).await;
    assert_eq!(value(&before), Some(&b"done"[..]));
    let after = read(&noticed(&replica).await).await;
    assert_eq!(value(&after), Some(&b"started"[..]), "the fault did not happen");
    assert!(after.complete_since > before.now, "{after:?}");
}

/// A server that removes keys by itself, and one whose settings nobody may read, promise nothing.
#[tokio::test]
async fn what_may_vanish_unnoticed_is_not_promised_and_no_read_is_complete() {
    let server = Redis::start(flushing().line("maxmemory-policy allkeys-lru")).await.unwrap();
    let store = connect(&format!("{}?allow_eviction=true", url(&server))).await;
    first_use(&*store).await;
    write(&store, "done").await;
    let why = store.guarantees().record.to_string();
    assert!(why.contains("maxmemory-policy is allkeys-lru"), "{why}");
    let read_at = read(&store).await;
    assert_eq!((value(&read_at), read_at.complete_since), (Some(&b"done"[..]), read_at.now));

    let blind = "user app on >hunter2 ~leasehold:* &leasehold:* +@all -config";
    let server = server_with(flushing().line(blind)).await;
    let store = connect(&url(&server).replace("redis://", "redis://app:hunter2@")).await;
    write(&store, "done").await;
    let why = store.guarantees().record.to_string();
    assert!(why.contains("permit CONFIG GET"), "{why}");
}

#[tokio::test]
async fn a_key_that_is_no_record_is_named_and_the_next_write_replaces_it() {
    let server = server_with(RedisOptions::new()).await;
    let store = connect(&url(&server)).await;
    let key = "leasehold:{0}:record:a";
    let mut grant = None;
    for (number, planted) in
        [(1, &["SET", key, "7 x"][..]), (2, &["LPUSH", key, "1"]), (3, &["SET", key, "7 1 1"])]
    {
        server.cli(&["DEL", key]).await.unwrap();
        server.cli(planted).await.unwrap();
        let error = store.read_record(&name("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains(key), "{error}");
        if grant.is_none() {
            grant = Some(granted(&*store, &request("a", LEASE)).await);
        }
        write_again(&store, grant.as_ref().unwrap(), "done", number).await;
        assert_eq!(value(&read(&store).await), Some(&b"done"[..]));
    }
}

#[tokio::test]
async fn each_bucket_of_a_cluster_has_its_records() {
    let cluster = clusters::cluster(0, "").await;
    let store = connect(&clusters::url(&cluster, "")).await;
    let why = store.guarantees().record.to_string();
    assert!(why.contains("a replica that is promoted"), "{why}");
    for at in 0..20 {
        let grant = granted(&*store, &request(&format!("job {at}"), LEASE)).await;
        let write = RecordWrite::new(at.to_string(), DAY).unwrap();
        assert_eq!(store.write_record(&grant, &write).await.unwrap(), WriteOutcome::Written);
        let read = store.read_record(&grant.name).await.unwrap();
        assert_eq!(value(&read), Some(at.to_string().as_bytes()));
        assert!(read.complete_since > StoreTime::EVER && read.complete_since < read.now);
        store.force_release(&grant.name).await.unwrap();
        let late = RecordWrite::new("late", DAY).unwrap().with_number(2);
        assert_eq!(store.write_record(&grant, &late).await.unwrap(), WriteOutcome::NotHeld);
        assert_eq!(store.read_record(&grant.name).await.unwrap().record, read.record);
    }
    store.init(&Init::new().with_records_complete(true)).await.unwrap();
    for at in 0..20 {
        let read = store.read_record(&name(&format!("job {at}"))).await.unwrap();
        assert_eq!(read.complete_since, StoreTime::EVER);
    }
}

#[tokio::test]
async fn a_write_that_arrives_after_the_next_holder_changes_nothing() {
    let server = server_with(RedisOptions::new()).await;
    let direct = connect(&url(&server)).await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let behind = connect(&format!("redis://{}?timeout=30s", proxy.address())).await;
    late_write::changes_nothing(&*direct, Arc::clone(&behind), &proxy).await;
    late_hand_over::changes_nothing(&*direct, behind, &proxy).await;
}

#[tokio::test]
async fn an_outage_opens_no_latch() {
    let server = Redis::start(flushing()).await.unwrap();
    let (address, options) = (server.address(), "longest_lease=5s&timeout=2s");
    first_use(&*connect(&format!("redis://{address}?{options}")).await).await;
    let proxy = Proxy::start(address).await.unwrap();
    let behind = format!("redis://{}?{options}", proxy.address());
    latch_outage::opens_no_latch(async || connect(&behind).await, Arc::new(proxy)).await;
    let url = format!("redis://{address}?{options}&prefix=other");
    first_use(&*connect(&url).await).await;
    latch_outage::opens_no_latch(async || connect(&url).await, Arc::new(Mutex::new(server))).await;
}
