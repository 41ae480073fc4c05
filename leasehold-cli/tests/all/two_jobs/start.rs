//! The second job begins only with a lock that it certainly has.

use server_kit::Mode;

use super::Pair;
use crate::support::{Running, new_session, until};

/// A store pushes a grant to a waiter, which must confirm it within its claim window.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pushed_grant_is_confirmed_before_command_starts() {
    let pair = Pair::new().await;
    let mut holder = pair.leasehold();
    holder.args(["run", "job", "--", "sh", "-c", "echo up; read -r _"]);
    let mut holder = Running::start(&mut holder);
    assert_eq!(holder.line(), "up");
    let words = pair.first_args(&["--wait", "60s"], "echo ran; exec sleep 1000");
    let mut waiter = Running::start(new_session().args(words));
    let queued = || pair.ok(&["inspect", "job", "--json"]).contains("\"waiting\": 1");
    until("a waiter", || queued().then_some(()));
    // The push arrives, and its confirmation does not.
    pair.proxy.set(Mode::RequestsLost).await.unwrap();
    holder.say("");
    assert_eq!(holder.code(), 0);
    assert_eq!(waiter.code(), 75);
    assert!(waiter.until_all_gone().is_empty(), "COMMAND has started");
    let last = waiter.stderr().pop().unwrap();
    let said = "leasehold: lock \"job\" not acquired: its grant was not confirmed: ";
    assert!(last.starts_with(said), "{last}");
    // It was a push: no request has arrived since.
    assert!(pair.proxy.counters().to_server.swallowed > 0, "the fault did not happen");
}
