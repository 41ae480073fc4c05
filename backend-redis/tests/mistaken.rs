//! A server that is there, and not what the URL says.
#![allow(clippy::unwrap_used)]

mod support;

use std::net::SocketAddr;

use backend_redis::Fence;
use conformance_tests::kit::{Proxy, Redis, RedisCluster, RedisOptions, Sentinels, Server as _};
use lock_core::ErrorKind;

use self::support::{connect, server, url};

async fn refused(url: &str, part: &str) {
    let error = backend_redis::connect(url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error:?}");
    assert!(error.to_string().contains(part), "{url}: {error}");
}

#[tokio::test]
async fn a_server_without_such_a_database_is_told() {
    let server = server().await;
    refused(&format!("{}/16", url(&server)), "no database of this number").await;
}

#[tokio::test]
async fn a_server_and_a_sentinel_are_told_apart() {
    let server = server().await;
    let url = format!("redis+sentinel://{}/main", server.address());
    refused(&url, "no sentinel; use redis://").await;
    let group = Sentinels::start(0, RedisOptions::new()).await.unwrap();
    for sentinel in group.endpoints() {
        refused(&format!("redis://{sentinel}"), "is a sentinel; use redis+sentinel://").await;
    }
}

/// The server, whose answers name another version. `guide` is a sentinel that names the server, if it is not the
/// server itself; the address to connect to is that of the last proxy.
async fn of_version(server: &Redis, version: &str, guide: Option<SocketAddr>) -> Vec<Proxy> {
    let mut proxies = vec![Proxy::start(server.address()).await.unwrap()];
    let (port, other) = (server.address().port(), proxies[0].address().port());
    let real = format!("redis_version:{}", server.info("redis_version").await.unwrap());
    let told = format!("redis_version:{version}");
    // As a table of slots tells the address, and as a sentinel does.
    let slots = [format!(":{port}\r\n"), format!(":{other}\r\n")];
    let named = [format!("$5\r\n{port}\r\n"), format!("$5\r\n{other}\r\n")];
    let texts = [(&*real, &*told), (&slots[0], &slots[1]), (&named[0], &named[1])];
    if let Some(guide) = guide {
        proxies.push(Proxy::start(guide).await.unwrap());
    }
    for proxy in &proxies {
        proxy.alter_answers(&texts).unwrap();
    }
    proxies
}

/// A script of an older one writes also with too few replicas in touch.
#[tokio::test]
async fn a_server_that_is_too_old_is_refused_on_every_connection_that_serves_locks() {
    let cluster = RedisCluster::start(1, 0, RedisOptions::new()).await.unwrap();
    let group = Sentinels::start(0, RedisOptions::new()).await.unwrap();
    let (single, node, master) = (server().await, &cluster.nodes()[0], &group.servers()[0]);
    let sentinel = group.endpoints()[0];
    let ways = [
        (&single, None, "redis", String::new()),
        (node, None, "redis+cluster", String::new()),
        (master, Some(sentinel), "redis+sentinel", format!("/{}", Sentinels::MASTER)),
    ];
    for (server, guide, scheme, master) in ways {
        for (version, allowed) in [("6.2.14", false), ("6.9.9", false), ("7.0.0", true)] {
            let proxies = of_version(server, version, guide).await;
            let url = format!("{scheme}://{}{master}", proxies.last().unwrap().address());
            if allowed {
                connect(&url).await;
            } else {
                refused(&url, &format!("redis_version {version}; must be 7.0 or later")).await;
                let error = Fence::connect(&url).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Config, "{error:?}");
            }
            assert!(proxies[0].counters().altered > 0, "{scheme}: no version was altered");
        }
    }
}
