//! The network drops the established connections without a word, as a firewall does that forgets
//! them. New ones work.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use lock_core::{Backend, Init, LockClient, LockName};
use servers::{Counters, Mode, Proxy, Redis, RedisOptions, Server as _};

use crate::{
    RedisBuilder,
    connection::subscription::{Listening, PushPath},
    discovery::Discovery,
    keys::{Bucket, Keys},
    tests::discovery::{HOST, LIMIT, at, sentinel, server},
    waiting::Pushes,
};

/// So long that a test fails if it waits for it.
const FOREVER: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_secs(60);

/// A way to a server on which established connections can go silent.
struct Way {
    to: SocketAddr,
    outer: Proxy,
    inner: Proxy,
}

impl Way {
    async fn to(to: SocketAddr) -> Self {
        let inner = Proxy::start(to).await.unwrap();
        let outer = Proxy::start(inner.address()).await.unwrap();
        Self { to, outer, inner }
    }

    fn port(&self) -> u16 {
        self.outer.address().port()
    }

    async fn forget_connections(&self) {
        self.outer.redirect(self.to);
        self.inner.set(Mode::BlackHole).await.unwrap();
    }

    async fn lost_something(&self) {
        let lost = |now: &Counters| now.to_server.swallowed > 0;
        self.inner.until("a lost request", SOON, lost).await.unwrap();
    }
}

async fn client(store: Arc<dyn Backend>) -> LockClient {
    store.init(&Init::new().with_first_use(true)).await.unwrap();
    LockClient::new(store)
}

async fn acquires(client: &LockClient) {
    let lock = client.lock(LockName::new("a").unwrap());
    let acquired = tokio::time::timeout(SOON, lock.acquire()).await;
    acquired.expect("a silent connection was waited for").unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_silent_connection_is_replaced_by_one_that_answers() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let way = Way::to(server.address()).await;
    let store = RedisBuilder::tcp(HOST, way.port()).timeout(FOREVER).build().await.unwrap();
    let client = client(store).await;
    acquires(&client).await;
    way.forget_connections().await;
    acquires(&client).await;
    way.lost_something().await;
}

#[tokio::test]
async fn the_connections_to_the_sentinels_are_replaced_with_that_to_the_master() {
    let master = Redis::start(RedisOptions::new()).await.unwrap();
    let to_master = Way::to(master.address()).await;
    let sentinel = sentinel(to_master.port(), 1).await;
    let to_sentinel = Way::to(SocketAddr::from(([127, 0, 0, 1], sentinel))).await;
    let sentinels = [(HOST, to_sentinel.port())];
    let builder = RedisBuilder::sentinel("mymaster", sentinels).timeout(FOREVER);
    let client = client(builder.build().await.unwrap()).await;
    acquires(&client).await;
    to_sentinel.forget_connections().await;
    to_master.forget_connections().await;
    acquires(&client).await;
    to_master.lost_something().await;
}

#[tokio::test]
async fn after_one_silent_connection_the_sentinels_are_asked_on_new_ones() {
    let way = Way::to(SocketAddr::from(([127, 0, 0, 1], sentinel(1001, 1).await))).await;
    let builder = RedisBuilder::sentinel("mymaster", [(HOST, way.port())]).timeout(FOREVER);
    let discovery = Discovery::new(&builder.settings);
    assert_eq!(discovery.locate(Bucket::FIRST).await.unwrap(), at(1001));
    way.forget_connections().await;
    discovery.distrust();
    let asked = tokio::time::timeout(SOON, discovery.locate(Bucket::FIRST)).await;
    let asked = asked.expect("the silent connection was asked");
    assert_eq!(asked.unwrap(), at(1001));
}

/// Pushes of a cluster come on a connection that has no other traffic.
#[tokio::test]
async fn a_silent_connection_for_pushes_is_replaced() {
    let made = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&made);
    let node = server(move |words| match words[0].as_str() {
        "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
        "SSUBSCRIBE" => {
            counted.fetch_add(1, Ordering::SeqCst);
            let channel = &words[1];
            format!(">3\r\n$10\r\nssubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len())
        }
        // The first connection falls silent, and the second one answers.
        "PING" if counted.load(Ordering::SeqCst) == 1 => String::new(),
        _ => "+PONG\r\n".to_owned(),
    })
    .await;
    let settings = RedisBuilder::cluster([(HOST, node)]).settings;
    let pushes = Arc::new(Pushes::new(&Keys::in_topology("x", &settings.topology), 1, false));
    let path = PushPath::Sharded(Box::new(settings), at(node));
    let listening = Listening::new(path, Arc::default(), pushes, LIMIT);
    for expected in [1, 2, 2] {
        listening.subscribe(Bucket::FIRST).await.unwrap();
        assert_eq!(made.load(Ordering::SeqCst), expected);
        listening.confirm().await;
    }
}
