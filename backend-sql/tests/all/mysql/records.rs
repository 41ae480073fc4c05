//! Records in MySQL: what the server may lose, and how that is known.

use std::{sync::Arc, time::Duration};

use backend_sql::{Strategy, mysql::connect};
use lock_core::{
    Backend, ErrorKind, Grant, Init, RecordRead, RecordWrite, ReleaseOptions, StoreTime,
    WriteOutcome,
};
use servers::{Data, Proxy, Server as _, wait::until};
use sqlx::mysql::MySqlPoolOptions;
use tokio::sync::Mutex;
use verification::{latch_outage::opens_no_latch, late_hand_over, late_write};

use crate::support::mariadb::{
    BOTH, WAIT, cause_a_sweep, granted, made, open, prefix, request, start, url,
};

const DAY: Duration = Duration::from_secs(86_400);

async fn write(store: &Arc<dyn Backend>, name: &str) -> Grant {
    let grant = granted(store, &request(name)).await;
    let write = RecordWrite::new("done", DAY).unwrap();
    assert_eq!(store.write_record(&grant, &write).await.unwrap(), WriteOutcome::Written);
    grant
}

async fn read(store: &Arc<dyn Backend>, name: &str) -> RecordRead {
    store.read_record(&request(name).name).await.unwrap()
}

/// It may lose a record by a crash, and flush each commit when it is asked again. So it gets none,
/// and the ones from before its settings were changed stay.
#[tokio::test]
async fn a_server_that_flushes_seldom_gets_no_record() {
    let mut server = start().await;
    let store = made(&server, Strategy::PrimaryKey).await;
    let grant = write(&store, "job").await;
    server.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 2").await.unwrap();
    let next = RecordWrite::new("next", DAY).unwrap().with_number(2);
    let error = store.write_record(&grant, &next).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let why = error.to_string();
    assert!(why.contains("may lose records") && why.contains("set it to 1"), "{why}");
    assert!(!store.guarantees().record.holds());
    let error = store.init(&Init::new().with_records_complete(true)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let doubted = read(&store, "job").await;
    assert_eq!(doubted.complete_since, doubted.now);
    // The setting was not in its files.
    server.restart(Data::Keep).await.unwrap();
    let after = read(&open(&server, Strategy::PrimaryKey).await, "job").await;
    assert_eq!((after.record, after.complete_since), (doubted.record, StoreTime::EVER));
}

#[tokio::test]
async fn a_server_that_flushes_keeps_records_over_a_crash() {
    let mut server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        assert!(store.guarantees().record.holds());
        write(&store, "job").await;
        let before = read(&store, "job").await;
        assert_eq!(before.complete_since, StoreTime::EVER);
        store.init(&Init::new().with_records_complete(true)).await.unwrap();
        server.restart(Data::Keep).await.unwrap();
        let after = read(&open(&server, strategy).await, "job").await;
        assert_eq!((after.record, after.complete_since), (before.record, StoreTime::EVER));
    }
}

#[tokio::test]
async fn a_sweep_forgets_records_whose_time_is_over_and_no_other() {
    let server = start().await;
    for strategy in BOTH {
        let (store, prefix) = (made(&server, strategy).await, prefix(strategy));
        for name in ["kept", "over"] {
            let grant = write(&store, name).await;
            store.release(&grant, ReleaseOptions::new()).await.unwrap();
        }
        let over = format!("UPDATE {prefix}_records SET forget_at = written WHERE name = 'over'");
        server.sql(&over).await.unwrap();
        cause_a_sweep(&store).await;
        let names = format!("SELECT GROUP_CONCAT(name) FROM {prefix}_records");
        let left = async || Ok((server.sql(&names).await? == "kept").then_some(()));
        until("the sweep", WAIT, left).await.unwrap();
    }
}

/// Some servers take an empty text for null.
#[tokio::test]
async fn an_empty_record_is_one_in_every_sql_mode() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey).await;
    for mode in ["", "EMPTY_STRING_IS_NULL", "SIMULTANEOUS_ASSIGNMENT", "ANSI,STRICT_ALL_TABLES"] {
        server.sql(&format!("SET GLOBAL sql_mode = '{mode}'")).await.unwrap();
        let store = open(&server, Strategy::PrimaryKey).await;
        let grant = write(&store, "job").await;
        let empty = RecordWrite::new("", DAY).unwrap().with_number(2);
        for _ in 0..2 {
            assert_eq!(store.write_record(&grant, &empty).await.unwrap(), WriteOutcome::Written);
            assert_eq!(read(&store, "job").await.record.unwrap().value, b"", "{mode}");
        }
        let early = RecordWrite::new("early", DAY).unwrap();
        assert_eq!(store.write_record(&grant, &early).await.unwrap(), WriteOutcome::Written);
        assert_eq!(read(&store, "job").await.record.unwrap().value, b"", "{mode}");
        store.release(&grant, ReleaseOptions::new()).await.unwrap();
    }
    drop(store);
}

#[tokio::test]
async fn a_write_that_arrives_after_the_next_holder_changes_nothing() {
    let server = start().await;
    for strategy in BOTH {
        let direct = made(&server, strategy).await;
        let proxy = Proxy::start(server.address()).await.unwrap();
        let pool = MySqlPoolOptions::new().max_connections(1).test_before_acquire(false);
        let pool = pool.connect(&url(proxy.address())).await.unwrap();
        let builder = backend_sql::mysql::MysqlBuilder::with_pool(pool).strategy(strategy);
        let builder = builder.table_prefix(prefix(strategy)).timeout(3 * WAIT);
        late_write::changes_nothing(&*direct, builder.build().await.unwrap(), &proxy).await;
        // Its own pool: a user's pool sends something after each call, which the fault would meet.
        let behind = url(proxy.address());
        let behind =
            format!("{behind}&strategy={strategy}&table_prefix={}&timeout=60s", prefix(strategy));
        let behind = connect(&behind).await.unwrap();
        late_hand_over::changes_nothing(&*direct, behind, &proxy).await;
    }
}

#[tokio::test]
async fn an_outage_opens_no_latch() {
    let server = start().await;
    for prefix in ["cut", "killed"] {
        let store = format!("{}&table_prefix={prefix}", url(server.address()));
        connect(&store).await.unwrap().init(&Init::default()).await.unwrap();
    }
    let proxy = Proxy::start(server.address()).await.unwrap();
    let behind = format!("{}&table_prefix=cut", url(proxy.address()));
    let direct = format!("{}&table_prefix=killed", url(server.address()));
    opens_no_latch(async || connect(&behind).await.unwrap(), Arc::new(proxy)).await;
    let killed = Arc::new(Mutex::new(server));
    opens_no_latch(async || connect(&direct).await.unwrap(), killed).await;
}
