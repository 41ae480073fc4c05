//! Settings that change while clients use them.

use lock_core::{
    Attempt, Backend, Enqueued, Env as _, ErrorKind, Init, Promise, Quarantined, SystemEnv,
};

use crate::support::{LEASE, end, granted, pair, release, request, request_for};

async fn held_back(backend: &dyn Backend) -> Quarantined {
    match backend.try_acquire(&request_for("free", LEASE / 2)).await.unwrap() {
        Attempt::Quarantined(held_back) => held_back,
        attempt => panic!("two holders: {attempt:?}"),
    }
}

/// Holders may still believe in locks with the old one that were lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_longest_lease_waits_out_the_old_one() {
    let (_zookeeper, [operator, other]) = pair().await;
    let held = granted(&*other, &request()).await;
    let shorter = Init::new().with_longest_lease(LEASE / 2);
    assert_eq!(operator.init(&shorter).await.unwrap().grants_in, LEASE);
    let held_back = held_back(&*other).await;
    assert!(held_back.why.contains("longest lease"), "{held_back:?}");
    assert!(SystemEnv.now() + held_back.remaining >= end(&held), "{held_back:?}");
    assert_eq!(other.guarantees().longest_lease, LEASE / 2);
}

/// Holders may still believe in locks that were lost while it was off.
#[tokio::test(flavor = "multi_thread")]
async fn the_quarantine_withholds_exclusion_while_it_is_off_and_waits_when_it_is_turned_on() {
    let (_zookeeper, [operator, other]) = pair().await;
    let turn = async |on| {
        let init = Init::new().with_quarantine(on);
        operator.init(&init).await.unwrap().grants_in
    };
    let excludes = || matches!(other.guarantees().exclusion, Promise::Holds { .. });
    assert!(excludes());
    assert!(turn(false).await.is_zero());
    let held = granted(&*other, &request()).await;
    assert!(!excludes());
    assert_eq!(turn(true).await, LEASE);
    let held_back = held_back(&*other).await;
    assert!(held_back.why.contains("turned on"), "{held_back:?}");
    assert!(SystemEnv.now() + held_back.remaining >= end(&held), "{held_back:?}");
    assert!(excludes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_another_longest_lease_is_refused() {
    let (zookeeper, _clients) = pair().await;
    let url = format!("zookeeper://{}?tick=200ms&timeout=20s", zookeeper.endpoints()[0]);
    backend_zookeeper::connect(&format!("{url}&longest_lease=30s")).await.unwrap();
    let error = backend_zookeeper::connect(&format!("{url}&longest_lease=20s")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("20s, and the store has 30s"), "{error}");
}

/// An operator may shorten the longest lease without a wait. Then a client that knows the old
/// settings gets no longer lease, neither for an entry that it made before nor for a new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_old_settings_is_refused() {
    let (_zookeeper, [operator, known]) = pair().await;
    let held = granted(&*operator, &request()).await;
    let waiting = request();
    let Enqueued::Waiting(_place, _) = known.enqueue(&waiting).await.unwrap() else {
        panic!("two holders");
    };
    release(&*operator, &held).await;
    let set = async |longest| {
        let init = Init::new().with_first_use(true).with_longest_lease(longest);
        operator.init(&init).await.unwrap();
    };
    for asked in [waiting, request_for("other", LEASE)] {
        set(LEASE).await;
        known.inspect(&asked.name).await.unwrap();
        assert_eq!(known.guarantees().longest_lease, LEASE);
        set(LEASE / 2).await;
        let error = known.try_acquire(&asked).await.expect_err("a lease longer than a quarantine");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}
