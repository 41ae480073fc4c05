//! A server that is there, and not what the URL says.
#![allow(clippy::unwrap_used)]

mod support;

use conformance_tests::kit::{RedisOptions, Sentinels, Server as _};
use lock_core::ErrorKind;

use self::support::{server, url};

async fn refused(url: &str, part: &str) {
    for protocol in support::PROTOCOLS {
        let separator = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{separator}protocol={protocol}");
        let error = backend_redis::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error:?}");
        assert!(error.to_string().contains(part), "{url}: {error}");
    }
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
