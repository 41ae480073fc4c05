//! The events of renewals that fail on a real connection.

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::{Mode, Proxy, Server as _};
use lock_core::{
    LockClient, LossReason,
    test_util::{Heard, Told},
};

use crate::support::{connect, name, server};

const SOON: Duration = Duration::from_secs(60);

/// The early warning. Whether the network swallows the renewals or refuses them, the holder has a third of its lease to
/// stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_renewals_are_reported_a_third_of_the_lease_before_the_loss() {
    tokio::join!(cut(Mode::BlackHole), cut(Mode::Cut));
}

async fn cut(mode: Mode) {
    let server = server().await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let heard = Arc::new(Heard::default());
    let client = LockClient::new(connect(&format!("redis://{}", proxy.address())).await);
    let client = client.observed_by(heard.clone()).unwrap();
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
