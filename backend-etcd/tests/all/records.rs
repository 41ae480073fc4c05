//! Records in etcd: late writes, restored snapshots, and the leases by which records are forgotten.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{
    Backend, Error, ErrorKind, Grant, Init, LockName, RecordRead, RecordWrite, StoreTime,
    WriteOutcome,
};
use servers::{Data, Etcd, Mode, Server as _, Streams};
use tokio::{sync::Mutex, task::JoinHandle};
use verification::latch_outage::{Outage, opens_no_latch};

use crate::support::{
    cluster::{Cluster, LONGEST, attempt, held_back, request as short},
    connect, granted, name, pair, proxied, release, request, streamed, until,
};

const DAY: Duration = Duration::from_secs(86_400);

/// The time limit of the clients of `pair`.
const LIMIT: Duration = Duration::from_secs(10);

fn write_of(value: &str, number: u64, keep_for: Duration) -> RecordWrite {
    RecordWrite::new(value, keep_for).unwrap().with_number(number)
}

async fn write(store: &Arc<dyn Backend>, grant: &Grant, value: &str, number: u64) {
    let written = store.write_record(grant, &write_of(value, number, DAY)).await.unwrap();
    assert_eq!(written, WriteOutcome::Written);
}

async fn read(store: &Arc<dyn Backend>) -> RecordRead {
    store.read_record(&name()).await.unwrap()
}

fn value(read: &RecordRead) -> Option<&[u8]> {
    read.record.as_ref().map(|record| record.value.as_slice())
}

/// Sends the second write of a grant, whose transaction is held up on its way.
async fn held_up(
    streams: &Streams,
    behind: &Arc<dyn Backend>,
    grant: &Grant,
    late: &RecordWrite,
) -> JoinHandle<Result<WriteOutcome, Error>> {
    streams.hold_next("Txn", "the late one");
    let (behind, grant, late) = (Arc::clone(behind), grant.clone(), late.clone());
    let write = tokio::spawn(async move { behind.write_record(&grant, &late).await });
    until("the write to be held up", async || streams.holds("Txn")).await;
    write
}

/// The transaction that writes arrives when another client holds the lock and has read the record.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_arrives_after_the_next_holder_changes_nothing() {
    let (_etcd, streams, [direct, behind]) = streamed("60s").await;
    let stale = granted(&*behind, &request()).await;
    write(&behind, &stale, "first", 1).await;
    let late = write_of("the late one", 2, DAY);
    let writing = held_up(&streams, &behind, &stale, &late).await;
    direct.force_release(&name()).await.unwrap();
    let next = granted(&*direct, &request()).await;
    // The next holder has read, and not written yet.
    let before = read(&direct).await;
    assert_eq!(value(&before), Some(&b"first"[..]));
    assert!(streams.deliver("Txn").await, "there was no late request");
    assert_eq!(writing.await.unwrap().unwrap(), WriteOutcome::NotHeld);
    assert_eq!(read(&direct).await.record, before.record);
    write(&direct, &next, "next", 1).await;
}

/// The transaction arrives after its repeat and after a later write of the same grant.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_arrives_after_a_later_one_changes_nothing() {
    let (_etcd, streams, [direct, behind]) = streamed("60s").await;
    let grant = granted(&*behind, &request()).await;
    let late = write_of("the late one", 1, DAY);
    let writing = held_up(&streams, &behind, &grant, &late).await;
    assert_eq!(direct.write_record(&grant, &late).await.unwrap(), WriteOutcome::Written);
    write(&direct, &grant, "later", 2).await;
    let before = read(&direct).await;
    assert!(streams.deliver("Txn").await, "there was no late request");
    assert_eq!(writing.await.unwrap().unwrap(), WriteOutcome::Written);
    assert_eq!(value(&before), Some(&b"later"[..]));
    assert_eq!(read(&direct).await.record, before.record);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_raised_token_does_not_stop_its_holder() {
    let (_etcd, [one, other]) = pair().await;
    let grant = granted(&*one, &request()).await;
    let raised = lock_core::FencingToken::new(grant.token.get() + 1_000_000).unwrap();
    other.raise(&grant, raised).await.unwrap();
    write(&one, &grant, "done", 1).await;
}

/// The snapshot has an older record, and settings that say nothing of the loss.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_snapshot_is_known_to_lack_records() {
    let mut cluster = Cluster::start(1).await;
    let store = cluster.connect().await;
    let grant = attempt(&*store, &short("job")).await.granted().unwrap();
    write(&store, &grant, "started", 1).await;
    assert_eq!(read(&store).await.complete_since, StoreTime::EVER);
    cluster.save().await;
    write(&store, &grant, "done", 2).await;
    let before = read(&store).await;
    assert_eq!(value(&before), Some(&b"done"[..]));
    cluster.restore().await;
    for client in [cluster.connect().await, store] {
        let after = read(&client).await;
        assert_eq!(value(&after), Some(&b"started"[..]), "the fault did not happen");
        assert!(before.now < after.complete_since && after.complete_since <= after.now);
    }
    let store = cluster.connect().await;
    let held_back = held_back(&*store, "another").await;
    assert!(held_back.remaining <= LONGEST, "{held_back:?}");
    // A first use says nothing of records.
    store.init(&Init::new().with_first_use(true)).await.unwrap();
    assert!(read(&store).await.complete_since > before.now);
    store.init(&Init::new().with_records_complete(true)).await.unwrap();
    assert_eq!(read(&store).await.complete_since, StoreTime::EVER);
    // What an operator reports, with and without records.
    store.init(&Init::new().with_restored(true)).await.unwrap();
    assert!(read(&store).await.complete_since > before.now);
    let complete = Init::new().with_restored(true).with_records_complete(true);
    store.init(&complete).await.unwrap();
    assert_eq!(read(&store).await.complete_since, StoreTime::EVER);
}

async fn lease_of_record(etcd: &Etcd) -> String {
    let key = "leasehold/%leasehold/records/job";
    let found = etcd.ctl(&["get", key, "--write-out=fields"]).await.unwrap();
    let lease = found.lines().find_map(|line| line.strip_prefix("\"Lease\" : "));
    lease.unwrap_or("none").to_owned()
}

/// Whether etcd has the lease of this number. `etcdctl` lists 16 digits, also with zeros in front.
async fn is_alive(etcd: &Etcd, lease: &str) -> bool {
    let id = format!("{:016x}", lease.parse::<i64>().unwrap());
    etcd.ctl(&["lease", "list"]).await.unwrap().lines().any(|line| line == id)
}

/// Whether etcd has a lease of this length, which no lock has.
async fn has_lease_of(etcd: &Etcd, length: Duration) -> bool {
    for id in etcd.ctl(&["lease", "list"]).await.unwrap().lines().filter(|it| !it.contains(' ')) {
        let shown = etcd.ctl(&["lease", "timetolive", id]).await.unwrap();
        if shown.contains(&format!("TTL({}s)", length.as_secs())) {
            return true;
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_has_one_lease_however_often_it_is_written() {
    let (etcd, [store, _other]) = pair().await;
    let grant = granted(&*store, &request()).await;
    write(&store, &grant, "1", 1).await;
    let lease = lease_of_record(&etcd).await;
    assert!(is_alive(&etcd, &lease).await);
    for number in 2..6 {
        write(&store, &grant, &number.to_string(), number).await;
        assert_eq!(lease_of_record(&etcd).await, lease, "its lease was to be extended");
    }
    let brief = write_of("brief", 6, DAY / 2);
    assert_eq!(store.write_record(&grant, &brief).await.unwrap(), WriteOutcome::Written);
    assert_ne!(lease_of_record(&etcd).await, lease);
    assert!(!is_alive(&etcd, &lease).await, "the first lease was left behind");
    // A grant that is gone leaves no lease of a record that it did not write.
    release(&*store, &grant).await;
    let late = write_of("late", 7, DAY);
    assert_eq!(store.write_record(&grant, &late).await.unwrap(), WriteOutcome::NotHeld);
    assert!(!has_lease_of(&etcd, DAY + LIMIT).await, "a lease was left behind");
}

/// The lease begins before the record says when it was written. Here the answer with the lease
/// takes longer than etcd takes to end a lease that is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_kept_for_its_time_also_where_answers_are_slow() {
    let kept = Duration::from_secs(3);
    let (_etcd, proxy, [direct, slow]) = proxied("6s").await;
    let grant = granted(&*slow, &request()).await;
    let late = Duration::from_secs(2);
    proxy.set(Mode::Delay { to_server: Duration::ZERO, to_client: late }).await.unwrap();
    let outcome = slow.write_record(&grant, &write_of("brief", 1, kept)).await.unwrap();
    assert_eq!(outcome, WriteOutcome::Written);
    let written = read(&direct).await.record.expect("it is kept").written;
    until("the record to be forgotten", async || {
        let now = read(&direct).await;
        assert!(now.record.is_some() || now.now >= written + kept, "too early");
        now.record.is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_no_record_is_named() {
    let (etcd, [store, _other]) = pair().await;
    etcd.ctl(&["put", "leasehold/%leasehold/records/a%2Fb", "x"]).await.unwrap();
    let error = store.read_record(&LockName::new("a/b").unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("records/a%2Fb"), "{error}");
}

struct Killed(Mutex<Etcd>);

#[async_trait]
impl Outage for Killed {
    async fn begin(&self) {
        self.0.lock().await.member_mut(0).kill().unwrap();
    }

    async fn end(&self) {
        self.0.lock().await.member_mut(0).restart(Data::Keep).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_opens_no_latch() {
    let (etcd, proxy, _clients) = proxied("2s").await;
    let behind = proxy.address();
    opens_no_latch(async || connect(behind, "2s").await, Arc::new(proxy)).await;
    let direct = etcd.endpoints()[0];
    let url = format!("etcd://{direct}?timeout=2s&prefix=killed/");
    let outage = Arc::new(Killed(Mutex::new(etcd)));
    opens_no_latch(async || backend_etcd::connect(&url).await.unwrap(), outage).await;
}
