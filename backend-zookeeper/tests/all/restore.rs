//! A snapshot is restored: ZooKeeper has lost locks, and shows nothing of it.

use std::time::Duration;

use lock_core::{Attempt, Init};
use servers::{ZooKeeper, ZooKeeperOptions};

use crate::support::{connect, granted, is_over, request, request_for};

const LONGEST: Duration = Duration::from_secs(3);

/// The operator reports it before clients go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_reported_restore_is_waited_out() {
    for is_ensemble in [false, true] {
        let options = ZooKeeperOptions::new();
        let zookeeper = match is_ensemble {
            true => ZooKeeper::three(options).await,
            false => ZooKeeper::single(options).await,
        };
        let mut zookeeper = zookeeper.unwrap();
        let endpoints = zookeeper.endpoints();
        let operator = connect(&endpoints, "10s").await;
        let first = Init::new().with_first_use(true).with_longest_lease(LONGEST);
        operator.init(&first).await.unwrap();
        zookeeper.save_data().await.unwrap();
        let holder = connect(&endpoints, "10s").await;
        let lost = granted(&*holder, &request_for("job", LONGEST)).await;
        zookeeper.restore_data().await.unwrap();
        let operator = connect(&endpoints, "10s").await;
        let settings = operator.init(&Init::new().with_restored(true)).await.unwrap();
        assert!(settings.grants_in > LONGEST / 2, "{settings:?}");
        let other = connect(&endpoints, "10s").await;
        let mut asked = request();
        asked.lease = LONGEST;
        let attempt = other.try_acquire(&asked).await.unwrap();
        let Attempt::Quarantined(held_back) = attempt else { panic!("two holders: {attempt:?}") };
        assert!(held_back.why.contains("restore"), "{held_back:?}");
        tokio::time::sleep(held_back.remaining).await;
        let next = eventually_granted_short(&*other).await;
        is_over(&lost);
        assert!(next.token > lost.token, "{} after {}", next.token, lost.token);
    }
}

async fn eventually_granted_short(backend: &dyn lock_core::Backend) -> lock_core::Grant {
    loop {
        let attempt = backend.try_acquire(&request_for("job", LONGEST)).await;
        if let Ok(Attempt::Granted(grant)) = attempt {
            return grant;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A client that knows the store finds it empty. It opens it after the longest lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_finds_all_data_lost_waits() {
    let mut zookeeper = ZooKeeper::single(ZooKeeperOptions::new()).await.unwrap();
    zookeeper.save_data().await.unwrap();
    let endpoints = zookeeper.endpoints();
    // The server refuses sessions that have seen later data, until they end.
    let url = format!("zookeeper://{}?tick=200ms&longest_lease=3s", endpoints[0]);
    let knows = backend_zookeeper::connect(&url).await.unwrap();
    let asked = || request_for("job", LONGEST);
    let lost = granted(&*knows, &asked()).await;
    zookeeper.restore_data().await.unwrap();
    let attempt = loop {
        match knows.try_acquire(&asked()).await {
            Ok(attempt) => break attempt,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    };
    let Attempt::Quarantined(held_back) = attempt else { panic!("two holders: {attempt:?}") };
    assert!(held_back.why.contains("lost"), "{held_back:?}");
    let first = Init::new().with_first_use(true);
    knows.init(&first).await.unwrap();
    assert!(eventually_granted_short(&*knows).await.token > lost.token);
}
