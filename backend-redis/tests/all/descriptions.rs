//! What a server, or a proxy before it, says of itself. What it leaves out never counts as safe.

use lock_core::{ErrorKind, Promise};
use servers::{Proxy, Redis, Server as _};

use crate::support::{connect, server, url};

/// A proxy before the server that answers with other texts.
async fn saying(server: &Redis, texts: &[(&str, &str)]) -> (Proxy, String) {
    let proxy = Proxy::start(server.address()).await.unwrap();
    proxy.alter_answers(texts).unwrap();
    let url = format!("redis://{}", proxy.address());
    (proxy, url)
}

#[tokio::test]
async fn what_a_server_does_not_say_is_not_promised() {
    let server = server().await;
    assert!(connect(&url(&server)).await.guarantees().exclusion.holds());
    let run = server.info("run_id").await.unwrap();
    let replid = server.info("master_replid").await.unwrap();
    for (text, other, named) in [
        ("maxmemory_policy:", "x:", "maxmemory_policy"),
        ("connected_slaves:", "x:", "connected_slaves"),
        ("repl_backlog_active:", "x:", "repl_backlog_active"),
        (&*run, &*"a".repeat(40), "run_id aaaa"),
        (&*replid, &*"0".repeat(40), "master_replid 0000"),
    ] {
        let (proxy, url) = saying(&server, &[(text, other)]).await;
        let store = connect(&url).await;
        match &store.guarantees().exclusion {
            Promise::Withheld { why } => assert!(why.contains(named), "{text}: {why}"),
            promised => panic!("{text}: {promised:?}"),
        }
        assert!(proxy.counters().altered > 0);
    }
}

async fn refused(url: &str, part: &str) {
    let error = backend_redis::connect(url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error:?}");
    assert!(error.to_string().contains(part), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_say_who_it_is_is_refused() {
    let server = server().await;
    for name in ["redis_version:", "run_id:", "role:", "master_replid:", "server_time_usec:"] {
        let (_proxy, url) = saying(&server, &[(name, "x:")]).await;
        refused(&url, &format!("no {}", name.trim_end_matches(':'))).await;
    }
    // A proxy that answers INFO itself: scripts see the server behind it.
    let run = format!("run_id:{}", server.info("run_id").await.unwrap());
    let own = format!("run_id:{}", "0123456789".repeat(4));
    let (_proxy, url) = saying(&server, &[(&*run, &*own)]).await;
    refused(&url, "a script on the server sees").await;
}

/// Redis Cloud and Redis Enterprise do not.
#[tokio::test]
async fn a_server_that_lets_no_script_call_info_is_refused() {
    let server = server().await;
    let texts = [("redis.call('INFO', 'server')", "redis.call('XXXX', 'server')")];
    let proxy = Proxy::altering(server.address(), &texts).await.unwrap();
    refused(&format!("redis://{}", proxy.address()), "lets no script call INFO").await;
    assert!(proxy.counters().altered > 0);
}
