//! When a client asks the server again for its identity.

use std::time::Duration;

use lock_core::{Attempt, ErrorKind};
use servers::{Proxy, Server as _};

use crate::support::{connect, granted, request, server, url};

/// No grant relies on a handshake older than this.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(3);
const LEASE: Duration = Duration::from_secs(20);

/// The client's only thread is blocked, so that no background task runs, and the connection stays
/// open.
#[tokio::test]
async fn after_a_stall_the_client_asks_again() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    granted(&*store, &request("a", LEASE)).await;
    std::thread::scope(|scope| {
        let meanwhile = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                // The server loses nothing, but no client can know that.
                for [host, port] in [["127.0.0.1", "1"], ["NO", "ONE"]] {
                    assert_eq!(server.cli(&["REPLICAOF", host, port]).await.unwrap(), "OK");
                }
            });
            std::thread::sleep(CONFIRMED_WITHIN);
        });
        meanwhile.join().unwrap();
    });
    // Only the first attempt could rely on the old handshake, so this is not in a loop.
    let answer = store.try_acquire(&request("b", LEASE)).await.unwrap();
    assert!(matches!(answer, Attempt::Quarantined(_)), "{answer:?}");
}

#[tokio::test]
async fn an_idle_client_repeats_its_handshake() {
    let server = server().await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let store = connect(&format!("redis://{}", proxy.address())).await;
    for _ in 0..2 {
        let sent = proxy.counters().to_server.passed;
        let limit = Duration::from_secs(60);
        proxy.until("a handshake", limit, |now| now.to_server.passed > sent).await.unwrap();
    }
    drop(store);
}

#[tokio::test]
async fn a_client_with_another_quarantine_setting_is_refused() {
    let server = server().await;
    let answer = backend_redis::connect(&format!("{}?quarantine=off", url(&server))).await;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Config);
}
