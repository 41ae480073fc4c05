//! Each event on a real server, under the fault that causes it.

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::{Data, Mode, Proxy, Redis, Server as _};
use lock_core::{
    ErrorKind, LockClient, LossReason, TryAcquire,
    test_util::{Heard, Told},
};

use crate::support::{connect, name, queued, server, url};

const SOON: Duration = Duration::from_secs(60);

async fn observed(url: &str) -> (LockClient, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let client = LockClient::new(connect(url).await);
    (client.observed_by(heard.clone()).unwrap(), heard)
}

#[tokio::test]
async fn a_pushed_lock_is_reported_from_its_request_to_its_release() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let holder = LockClient::new(Arc::clone(&store)).lock(name("a")).acquire().await.unwrap();
    let (client, heard) = observed(&url(&server)).await;
    let waiting = tokio::spawn(client.lock(name("a")).acquire());
    queued(&*store, "a", 1).await;
    holder.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    let acquired = heard.until("acquired").await;
    assert_eq!((&*acquired.about, acquired.token), ("pushed", Some(guard.token().get())));
    assert!(acquired.span > Duration::ZERO);
    // The claim of a pushed lock is a renewal.
    let renewed = heard.until("renewed").await;
    assert!(renewed.span > Duration::ZERO && renewed.lease == Duration::from_secs(10));
    guard.release().await.unwrap();
    assert_eq!(heard.words("a"), ["requested", "acquired", "renewed", "released"]);
    assert_eq!(heard.until("released").await.about, "released");
}

#[tokio::test]
async fn a_busy_lock_and_a_caller_that_gives_up_are_reported() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let _holder = LockClient::new(Arc::clone(&store)).lock(name("a")).acquire().await.unwrap();
    let (client, heard) = observed(&url(&server)).await;
    let wait = Duration::from_millis(300);
    assert!(client.lock(name("a")).wait(wait).acquire().await.unwrap_err().is_busy());
    let told = heard.until("not acquired").await;
    assert_eq!(&*told.about, "busy");
    assert!(told.span >= wait, "{told:?}");

    let (client, heard) = observed(&url(&server)).await;
    let waiting = tokio::spawn(client.lock(name("a")).acquire());
    queued(&*store, "a", 1).await;
    waiting.abort();
    assert_eq!(heard.until("not acquired").await.about, "cancelled");
}

/// The early warning. Whether the network swallows the renewals or refuses them, the holder has a third of its lease to
/// stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_renewals_are_reported_a_third_of_the_lease_before_the_loss() {
    tokio::join!(cut(Mode::BlackHole), cut(Mode::Cut));
}

async fn cut(mode: Mode) {
    let server = server().await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let (client, heard) = observed(&format!("redis://{}", proxy.address())).await;
    let lease = Duration::from_secs(9);
    let guard = client.lock(name("a")).lease(lease).acquire().await.unwrap();
    let before = proxy.counters();
    proxy.set(mode).await.unwrap();
    let left = tokio::time::timeout(SOON, guard.renewal_failing()).await.unwrap();
    assert!(left < lease / 3 && guard.renewal_health().failures > 0, "{mode:?}: {left:?}");
    let reason = tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    assert_eq!(reason, LossReason::Unreachable, "{mode:?}");
    let after = proxy.counters();
    let swallowed = after.to_server.swallowed > before.to_server.swallowed;
    assert!(if mode == Mode::Cut { after.open == 0 } else { swallowed }, "no renewal was cut");

    let told = heard.all();
    let at = |word: &str| told.iter().position(|told| told.word == word);
    let (failed, lost) = (at("renewal failed").unwrap(), at("lock lost").unwrap());
    assert!(failed < lost && told[failed].span >= lease / 3, "{mode:?}: {told:#?}");
    assert_eq!(told[lost].about, "unreachable");
    assert_eq!(told[lost].token, Some(guard.token().get()));
    // The health reported the same earlier: the remaining time goes down to nothing.
    let failures: Vec<&Told> = told.iter().filter(|told| told.word == "renewal failed").collect();
    assert!(
        failures.windows(2).all(|pair| pair[0].span >= pair[1].span),
        "{mode:?}: {failures:#?}"
    );
    proxy.set(Mode::Pass).await.unwrap();
    client.close().await;
}

#[tokio::test]
async fn a_lock_freed_by_force_is_reported_lost_and_a_late_release_not_held() {
    let server = server().await;
    let (client, heard) = observed(&url(&server)).await;
    let lease = Duration::from_secs(6);
    let guard = client.lock(name("a")).lease(lease).acquire().await.unwrap();
    client.force_release(name("a")).await.unwrap();
    let reason = tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    assert_eq!(reason, LossReason::Gone);
    assert_eq!(heard.until("lock lost").await.about, "gone");
    assert_eq!(heard.words("a"), ["requested", "acquired", "lock lost"]);

    let guard = client.lock(name("b")).acquire().await.unwrap();
    client.force_release(name("b")).await.unwrap();
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    assert_eq!(heard.until("released").await.about, "not held");
}

#[tokio::test]
async fn a_quarantine_is_reported_with_its_reason() {
    let mut server: Redis = server().await;
    let (client, heard) = observed(&url(&server)).await;
    let before = server.info("run_id").await.unwrap();
    server.restart(Data::Lose).await.unwrap();
    assert_ne!(server.info("run_id").await.unwrap(), before);
    let answer = async {
        loop {
            match client.lock(name("a")).try_acquire().await {
                Err(error) if error.is_retryable() => tokio::task::yield_now().await,
                answer => return answer.unwrap(),
            }
        }
    };
    let answer = tokio::time::timeout(SOON, answer).await.unwrap();
    assert!(matches!(answer, TryAcquire::Quarantined(_)), "{answer:?}");
    let told = heard.until("quarantined").await;
    assert!(told.about.contains("lost") && told.span > Duration::from_secs(20), "{told:?}");
    let last = heard.all().pop().unwrap();
    assert_eq!((last.word, &*last.about), ("not acquired", "quarantined"));
}

#[tokio::test]
async fn a_release_without_an_answer_is_reported_when_it_has_ended() {
    let server = server().await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let (client, heard) = observed(&format!("redis://{}?timeout=500ms", proxy.address())).await;
    let lease = Duration::from_secs(1);
    let guard = client.lock(name("a")).lease(lease).acquire().await.unwrap();
    proxy.set(Mode::Cut).await.unwrap();
    drop(guard);
    let told = heard.until("released").await;
    assert_eq!(told.about, ErrorKind::Unavailable.to_string());
    assert!(told.span < lease, "{told:?}");
}
