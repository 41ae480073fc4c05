//! The network drops the established connections without a word, as a firewall does that forgets them. New ones work.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use conformance_tests::kit::{Counters, Mode, Proxy, Redis, RedisOptions, Server as _};
use lock_core::{Backend, Init, LockClient, LockName};

use crate::{
    RedisBuilder,
    tests::discovery::{HOST, server},
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
    let port = to_master.port();
    let sentinel = server(move |words| match words.get(1).map(String::as_str) {
        Some("GET-MASTER-ADDR-BY-NAME") => {
            let port = port.to_string();
            format!("*2\r\n$9\r\n{HOST}\r\n${}\r\n{port}\r\n", port.len())
        }
        Some("MASTER") => "*2\r\n$12\r\nconfig-epoch\r\n$1\r\n1\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    })
    .await;
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
