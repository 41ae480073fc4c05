//! Servers that exist, but are not what the URL says.

use std::time::Duration;

use backend_redis::Fence;
use lock_core::ErrorKind;
use servers::{Proxy, RedisOptions, Sentinels, Server as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::support::{connect, server, url};

const SOON: Duration = Duration::from_secs(60);

async fn refused(url: &str, part: &str) {
    let error = backend_redis::connect(url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error:?}");
    assert!(error.to_string().contains(part), "{url}: {error}");
}

#[tokio::test]
async fn a_missing_database_is_reported() {
    let server = server().await;
    refused(&format!("{}/16", url(&server)), "no database of this number").await;
}

#[tokio::test]
async fn a_server_and_a_sentinel_are_distinguished() {
    let server = server().await;
    let url = format!("redis+sentinel://{}/main", server.address());
    refused(&url, "no sentinel; use redis://").await;
    let group = Sentinels::start(0, RedisOptions::new()).await.unwrap();
    for sentinel in group.endpoints() {
        refused(&format!("redis://{sentinel}"), "is a sentinel; use redis+sentinel://").await;
    }
}

/// Before 7.0 a script may write although too few replicas are connected. All topologies share this
/// check.
#[tokio::test]
async fn a_server_that_is_too_old_is_refused() {
    let server = server().await;
    let real = format!("redis_version:{}", server.info("redis_version").await.unwrap());
    for (version, allowed) in [("6.2.14", false), ("6.9.9", false), ("7.0.0", true)] {
        let proxy = Proxy::start(server.address()).await.unwrap();
        proxy.alter_answers(&[(&*real, &*format!("redis_version:{version}"))]).unwrap();
        let url = format!("redis://{}", proxy.address());
        if allowed {
            connect(&url).await;
        } else {
            refused(&url, &format!("redis_version {version}; must be 7.0 or later")).await;
            let error = Fence::connect(&url).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error:?}");
        }
        assert!(proxy.counters().altered > 0, "no version was altered");
    }
}

/// How a server that is not Redis answers: whether it accepts the login first, how the answer
/// begins, and what it repeats without end.
struct Flood {
    logs_in: bool,
    begin: &'static str,
    more: String,
}

const LONGEST_FLOOD: usize = 200 << 20;

/// How many bytes of such an answer a client took before it closed the connection.
async fn flooded(listener: TcpListener, flood: Flood) -> usize {
    let (mut client, _) = listener.accept().await.unwrap();
    let mut asked = vec![0; 4096];
    let mut hear = async |client: &mut TcpStream, word: &str| {
        let read = client.read(&mut asked).await.unwrap();
        assert!(String::from_utf8_lossy(&asked[..read]).contains(word), "no {word}");
    };
    hear(&mut client, "HELLO").await;
    if flood.logs_in {
        client.write_all(b"%1\r\n+proto\r\n:3\r\n").await.unwrap();
        hear(&mut client, "INFO").await;
    }
    let more = flood.more.repeat(100_000 / flood.more.len());
    let mut sent = client.write(flood.begin.as_bytes()).await.unwrap();
    while sent < LONGEST_FLOOD {
        if client.write_all(more.as_bytes()).await.is_err() {
            break;
        }
        sent += more.len();
    }
    sent
}

/// How many bytes the client took, and its error.
async fn refused_by_a_client(flood: Flood) -> (usize, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}?timeout=60s", listener.local_addr().unwrap());
    let server = tokio::spawn(flooded(listener, flood));
    let error = backend_redis::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let taken = tokio::time::timeout(SOON, server).await.unwrap().unwrap();
    (taken, format!("{error:?}"))
}

/// Before the password was sent and after. The sockets themselves buffer a few megabytes.
#[tokio::test]
async fn an_answer_without_end_uses_up_no_memory() {
    let long_part = format!("$10000\r\n{}\r\n", "x".repeat(10_000));
    for (logs_in, most) in [(false, 16 << 20), (true, 100 << 20)] {
        for (begin, more) in [
            ("$900000000\r\n", "x"),
            ("+", "x"),
            ("*900000\r\n", &*long_part),
            ("*900000000\r\n", "_\r\n"),
            (">2\r\n+message\r\n$900000000\r\n", "x"),
        ] {
            let flood = Flood { logs_in, begin, more: more.to_owned() };
            let (taken, said) = refused_by_a_client(flood).await;
            assert!(taken < most, "{begin:?}: {taken} bytes, logged in: {logs_in}: {said}");
            assert!(!said.contains("within 60s"), "{begin:?}: {said}");
        }
    }
}
