//! A Redis behind a proxy that removes a guard from the scripts.

use std::sync::Arc;

use lock_core::{Backend, Error, Init};
use servers::{Change, Proxy, Redis, RedisOptions, Server as _};
use verification::missing_guards::{Clients, Setup};

pub(super) struct Shared {
    server: Redis,
    pub(super) proxy: Proxy,
}

impl Shared {
    /// A client of this layout, whose store grants at once.
    pub(super) async fn of(&self, layout: &str) -> Arc<dyn Backend> {
        let store = self.client(layout).await;
        store.init(&Init::new().with_first_use(true)).await.unwrap();
        store
    }

    pub(super) async fn client(&self, layout: &str) -> Arc<dyn Backend> {
        Self::connect(&self.url_of(layout)).await.unwrap()
    }

    fn url_of(&self, layout: &str) -> String {
        format!("redis://{}?layout={layout}", self.proxy.address())
    }

    /// Another program that listens to a channel.
    pub(super) async fn listen(&self, channel: &str) -> redis::aio::PubSub {
        let client = redis::Client::open(format!("redis://{}", self.server.address())).unwrap();
        let mut listening = client.get_async_pubsub().await.unwrap();
        listening.subscribe(channel).await.unwrap();
        listening
    }

    /// Runs a command as another program.
    pub(super) async fn say(&self, words: &[&str]) -> String {
        self.server.cli(words).await.unwrap().trim().to_owned()
    }
}

#[async_trait::async_trait]
impl Setup for Shared {
    async fn start(changes: &[Change<'_>]) -> Self {
        let server = Redis::start(RedisOptions::new()).await.unwrap();
        let proxy = Proxy::changing(server.address(), changes).await.unwrap();
        Self { server, proxy }
    }

    fn altered(&self) -> u64 {
        self.proxy.counters().altered
    }
}

#[async_trait::async_trait]
impl Clients for Shared {
    fn url(&self) -> String {
        self.url_of("redis-py")
    }

    async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_foreign::connect(url).await
    }
}
