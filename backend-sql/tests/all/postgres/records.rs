//! Records in PostgreSQL: what outlives a crash, what is lost, and how that is known.

use std::{sync::Arc, time::Duration};

use backend_sql::{Strategy, postgres::connect};
use lock_core::{
    Backend, ErrorKind, Grant, Init, LockName, RecordRead, RecordWrite, ReleaseOptions, StoreTime,
    WriteOutcome,
};
use servers::{Data, Postgres, PostgresOptions, Proxy, Server as _};
use tokio::sync::Mutex;
use verification::{
    latch_outage::{self, opens_no_latch},
    late_hand_over, late_write,
};

use crate::support::postgres::{
    BOTH, LEASE, cause_a_sweep, granted, made, made_apart, open, request, says, start, url,
};

const DAY: Duration = Duration::from_secs(86_400);

fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

async fn write(store: &Arc<dyn Backend>, name: &str, value: &str) -> Grant {
    let grant = granted(store, &request(name, LEASE)).await;
    let write = RecordWrite::new(value, DAY).unwrap();
    assert_eq!(store.write_record(&grant, &write).await.unwrap(), WriteOutcome::Written);
    grant
}

async fn read(store: &Arc<dyn Backend>, of: &str) -> RecordRead {
    store.read_record(&name(of)).await.unwrap()
}

fn value(read: &RecordRead) -> &[u8] {
    &read.record.as_ref().unwrap().value
}

/// The server answers commits before it flushes them, and a crash takes back the last ones. A
/// record that was answered is not among them.
#[tokio::test]
async fn a_record_that_was_answered_outlives_a_crash_which_is_known() {
    let options = PostgresOptions::new().line("synchronous_commit = off");
    let mut server = Postgres::start(options.line("wal_writer_delay = 10s")).await.unwrap();
    for strategy in BOTH {
        let store = made(&server, strategy, LEASE).await;
        // Whatever else there is to be flushed is.
        server.sql("CHECKPOINT").await.unwrap();
        write(&store, "job", "done").await;
        let before = read(&store, "job").await;
        assert_eq!(before.complete_since, StoreTime::EVER);
        server.restart(Data::Keep).await.unwrap();
        let store = open(&server, strategy).await;
        // Before any client has noticed the loss, and after that.
        let unnoticed = read(&store, "job").await;
        assert_eq!(unnoticed.complete_since, unnoticed.now);
        store.quarantine().await.unwrap();
        store.try_acquire(&request("job", LEASE)).await.unwrap();
        let after = read(&store, "job").await;
        assert_eq!(after.record, before.record, "{strategy}");
        assert!(before.now < after.complete_since && after.complete_since <= after.now);
        // A first use says nothing of records.
        store.init(&Init::new().with_first_use(true)).await.unwrap();
        assert_eq!(read(&store, "job").await.complete_since, after.complete_since);
        server.restart_cleanly().await.unwrap();
        let store = open(&server, strategy).await;
        assert_eq!(read(&store, "job").await.complete_since, after.complete_since);
        store.init(&Init::new().with_records_complete(true)).await.unwrap();
        assert_eq!(read(&store, "job").await.complete_since, StoreTime::EVER);
        server.restart_cleanly().await.unwrap();
        let store = open(&server, strategy).await;
        assert_eq!(read(&store, "job").await.complete_since, StoreTime::EVER);
    }
}

/// A standby that has not received the last write is promoted.
#[tokio::test]
async fn a_lagging_standby_knows_that_it_may_lack_records() {
    let server = start().await;
    let ours = made(&server, Strategy::PrimaryKey, LEASE).await;
    let first = write(&ours, "job", "started").await;
    let replica = server.replica().await.unwrap();
    replica.sql("ALTER SYSTEM SET primary_conninfo = ''").await.unwrap();
    replica.sql("SELECT pg_reload_conf()").await.unwrap();
    says(&replica, "SELECT count(*) FROM pg_stat_wal_receiver", "0").await;
    let second = RecordWrite::new("done", DAY).unwrap().with_number(2);
    assert_eq!(ours.write_record(&first, &second).await.unwrap(), WriteOutcome::Written);
    let written = read(&ours, "job").await;
    assert_eq!(value(&written), b"done");
    replica.promote().await.unwrap();
    let theirs = open(&replica, Strategy::PrimaryKey).await;
    theirs.try_acquire(&request("job", LEASE)).await.unwrap();
    let old = read(&theirs, "job").await;
    assert_eq!(value(&old), b"started", "the fault did not happen");
    assert!(old.complete_since > written.now, "{old:?}");
}

/// The table is made anew by `init`, and then lacks what there was.
#[tokio::test]
async fn a_table_that_was_dropped_is_known_to_be_new() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy, LEASE).await;
        let before = read(&store, "job").await;
        assert_eq!(before.complete_since, StoreTime::EVER);
        write(&store, "job", "done").await;
        server.sql("DROP TABLE leasehold_records").await.unwrap();
        let error = store.read_record(&name("job")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        // No lock depends on it.
        granted(&store, &request("other", LEASE)).await;
        store.init(&Init::new()).await.unwrap();
        let after = read(&store, "job").await;
        assert!(after.record.is_none() && after.complete_since > before.now, "{after:?}");
    }
}

/// Before a marker of this store is there again, `init` replaces it for other reasons.
#[tokio::test]
async fn whatever_makes_the_marker_anew_tells_of_the_loss() {
    let server = start().await;
    for init in [
        Init::new(),
        Init::new().with_first_use(true),
        Init::new().with_quarantine(true),
        Init::new().with_reset_tokens(true),
    ] {
        for lost in ["TRUNCATE leasehold_marker", "UPDATE leasehold_marker SET store = 'theirs'"] {
            let store = made(&server, Strategy::PrimaryKey, LEASE).await;
            if init.quarantine.is_some() {
                store.init(&Init::new().with_quarantine(false)).await.unwrap();
            }
            let before = read(&store, "job").await;
            assert_eq!(before.complete_since, StoreTime::EVER);
            server.sql(lost).await.unwrap();
            store.init(&init).await.unwrap();
            let after = read(&store, "job").await;
            assert!(after.complete_since > before.now, "{init:?}, {lost}: {after:?}");
        }
    }
}

#[tokio::test]
async fn a_sweep_forgets_records_whose_time_is_over_and_no_other() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy, LEASE).await;
        for name in ["kept", "over"] {
            let grant = write(&store, name, name).await;
            store.release(&grant, ReleaseOptions::new()).await.unwrap();
        }
        let over = "UPDATE leasehold_records SET forget_at = written WHERE name = 'over'";
        server.sql(over).await.unwrap();
        cause_a_sweep(&store).await;
        says(&server, "SELECT string_agg(name, ',') FROM leasehold_records", "kept").await;
    }
}

#[tokio::test]
async fn a_write_that_arrives_after_the_next_holder_changes_nothing() {
    let server = start().await;
    for strategy in BOTH {
        let direct = made_apart(&server, strategy).await;
        let proxy = Proxy::start(server.address()).await.unwrap();
        let prefix = strategy.to_string().replace('-', "_");
        let behind =
            url(&server).replace(&server.address().to_string(), &proxy.address().to_string());
        let behind =
            format!("{behind}?strategy={strategy}&table_prefix={prefix}&timeout=60s&listen=off");
        let behind = connect(&behind).await.unwrap();
        late_write::changes_nothing(&*direct, Arc::clone(&behind), &proxy).await;
        late_hand_over::changes_nothing(&*direct, behind, &proxy).await;
    }
}

#[tokio::test]
async fn an_outage_opens_no_latch() {
    let server = Postgres::start(PostgresOptions::new().line("fsync = on")).await.unwrap();
    for prefix in ["cut", "killed"] {
        let store = connect(&format!("{}?table_prefix={prefix}", url(&server))).await.unwrap();
        store.init(&Init::new().with_longest_lease(latch_outage::LEASE)).await.unwrap();
    }
    let proxy = Proxy::start(server.address()).await.unwrap();
    let direct = url(&server);
    let behind = direct.replace(&server.address().to_string(), &proxy.address().to_string());
    let (behind, direct) =
        (format!("{behind}?table_prefix=cut"), format!("{direct}?table_prefix=killed"));
    opens_no_latch(async || connect(&behind).await.unwrap(), Arc::new(proxy)).await;
    let killed = Arc::new(Mutex::new(server));
    opens_no_latch(async || connect(&direct).await.unwrap(), killed).await;
}
