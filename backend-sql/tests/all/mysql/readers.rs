//! Readers that share a lock, each with its own lease.

use std::{sync::Arc, time::Duration};

use backend_sql::Strategy;
use lock_core::{
    Backend, Env as _, Grant, Mode, ReleaseOptions, ReleaseOutcome, Renewal, Request, SystemEnv,
};
use servers::{Clock, Mariadb, MariadbOptions};

use crate::support::mariadb::{
    BOTH, assert_renewed, busy, granted, made, prefix, request, start, stopped,
};

const SHORT: Duration = Duration::from_millis(300);

fn reader(lease: Duration) -> Request {
    let mut reader = request("job").with_mode(Mode::Shared);
    reader.lease = lease;
    reader
}

async fn readers(store: &Arc<dyn Backend>) -> Option<u64> {
    store.inspect(&request("job").name).await.unwrap().unwrap().readers
}

/// Adds readers whose leases have ended, or which live on, to the group.
async fn add(server: &Mariadb, strategy: Strategy, count: usize, end: &str) {
    let add = format!(
        "UPDATE {strategy}_locks SET readers = CONCAT(readers, (SELECT GROUP_CONCAT(\
         LPAD(HEX(seq), 32, '0'), '-{end},' SEPARATOR '') FROM seq_1_to_{count}))",
        strategy = prefix(strategy)
    );
    server.sql(&format!("SET SESSION group_concat_max_len = 1000000; {add}")).await.unwrap();
}

/// A crashed reader leaves a group that lives on.
#[tokio::test]
async fn a_reader_counts_until_its_own_lease_ends() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let lives = granted(&store, &reader(Duration::from_secs(30))).await;
        let crashed = granted(&store, &reader(SHORT)).await;
        tokio::time::sleep(2 * SHORT).await;
        assert_eq!(readers(&store).await, Some(1), "{strategy}");
        let answers = store.renew(&[&crashed, &lives], SystemEnv.now()).await;
        assert!(
            matches!(answers[..], [Renewal::Lost(_), Renewal::Renewed { .. }]),
            "{strategy}: {answers:?}"
        );
        let released = store.release(&crashed, ReleaseOptions::new()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::NotHeld, "{strategy}");
    }
}

/// Several readers of one lock renew in one batch; each keeps its own end.
#[tokio::test]
async fn a_batch_renews_each_reader_for_its_own_lease() {
    let (clock, server) = stopped().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let long = granted(&store, &reader(Duration::from_secs(30))).await;
        let short = granted(&store, &reader(Duration::from_secs(10))).await;
        let mut longer = short.clone();
        longer.lease = Duration::from_secs(20);
        let answers = store.renew(&[&long, &longer], SystemEnv.now()).await;
        assert!(answers.iter().all(|one| matches!(one, Renewal::Renewed { .. })), "{answers:?}");
        // A renewal that comes late shortens nothing.
        let late: &Grant = &short;
        assert_renewed(&store, late).await;
        clock.step(11.0).unwrap();
        assert_eq!(readers(&store).await, Some(2), "{strategy}");
        assert_renewed(&store, &longer).await;
    }
}

/// The reader with the longest lease leaves, and one with a short lease has crashed.
#[tokio::test]
async fn a_group_lasts_as_long_as_the_readers_that_are_left() {
    let clock = Clock::new().await.unwrap();
    let server = Mariadb::start(MariadbOptions::new().clock(&clock)).await.unwrap();
    clock.stop().unwrap();
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let long = granted(&store, &reader(Duration::from_secs(30))).await;
        let middle = granted(&store, &reader(Duration::from_secs(20))).await;
        let _crashed = granted(&store, &reader(Duration::from_secs(10))).await;
        // Its lease is not the longest, so nothing changes.
        store.release(&middle, ReleaseOptions::new()).await.unwrap();
        clock.step(11.0).unwrap();
        busy(&store, &request("job")).await;
        granted(&store, &reader(Duration::from_secs(10))).await;
        store.release(&long, ReleaseOptions::new()).await.unwrap();
        clock.step(9.0).unwrap();
        busy(&store, &request("job")).await;
        assert_eq!(readers(&store).await, Some(1), "{strategy}");
        clock.step(2.0).unwrap();
        granted(&store, &request("job")).await;
    }
}

/// The group is full of readers whose leases have ended.
#[tokio::test]
async fn crashed_readers_make_room_in_a_full_group() {
    let options = MariadbOptions::new().flag("--innodb-flush-log-at-trx-commit=2");
    let server = Mariadb::start(options).await.unwrap();
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let first = granted(&store, &reader(Duration::from_secs(30))).await;
        add(&server, strategy, 999, "9999999999999999").await;
        assert_eq!(readers(&store).await, Some(1_000), "{strategy}");
        busy(&store, &reader(SHORT)).await;
        let end = "UPDATE {}_locks SET readers = REPLACE(readers, '-9999999999999999', '-0000000000000001')";
        let end = end.replace("{}", &prefix(strategy));
        server.sql(&end).await.unwrap();
        assert_eq!(readers(&store).await, Some(1), "{strategy}");
        let joined = granted(&store, &reader(Duration::from_secs(30))).await;
        assert_eq!(joined.token, first.token, "{strategy}");
        assert_eq!(readers(&store).await, Some(2), "{strategy}");
        assert_renewed(&store, &first).await;
        assert_renewed(&store, &joined).await;
    }
}
