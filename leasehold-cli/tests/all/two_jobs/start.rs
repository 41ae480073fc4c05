//! The second job begins only with a lock that it certainly has.

use servers::Mode;

use super::Pair;
use crate::support::{Running, until};

/// A store pushes a grant to a waiter, which must confirm it within its claim window.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pushed_grant_is_confirmed_before_command_starts() {
    let job = ["run", "--wait", "60s", "job", "--", "sh", "-c", "echo ran; exec sleep 1000"];
    is_confirmed_first(&job).await;
}

/// The script begins when it has read the token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pushed_grant_is_confirmed_before_hold_prints_the_token() {
    is_confirmed_first(&["hold", "--wait", "60s", "job"]).await;
}

async fn is_confirmed_first(waits: &[&str]) {
    let pair = Pair::new().await;
    let mut holder = pair.leasehold();
    holder.args(["run", "job", "--", "sh", "-c", "echo up; read -r _"]);
    let mut holder = Running::start(&mut holder);
    assert_eq!(holder.line(), "up");
    let mut waiter = Running::start(pair.by_proxy().args(waits));
    let queued = || pair.ok(&["inspect", "job", "--json"]).contains("\"waiting\": 1");
    until("a waiter", || queued().then_some(()));
    // The push arrives, and its confirmation does not.
    pair.proxy.set(Mode::RequestsLost).await.unwrap();
    holder.say("");
    assert_eq!(holder.code(), 0);
    assert!(waiter.until_all_gone().is_empty(), "it has started");
    assert_eq!(waiter.code(), 75);
    let last = waiter.stderr().pop().unwrap();
    let said = "leasehold: lock \"job\" not acquired: its grant was not confirmed: ";
    assert!(last.starts_with(said), "{last}");
    // It was a push: no request has arrived since.
    assert!(pair.proxy.counters().to_server.swallowed > 0, "the fault did not happen");
}
