//! What the tests on real servers share.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used)] // not every test uses all of it

use std::{future::Future, sync::Arc, time::Duration};

use conformance_tests::kit::{Proxy, Redis, RedisOptions, Server as _};
use lock_core::{
    Attempt, Backend, Busy, Enqueued, Env as _, Grant, Init, LockName, OwnerId, OwnerLabel,
    Renewal, Request, SystemEnv, Waiter,
};

pub(crate) const LEASE: Duration = Duration::from_secs(20);
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A machine that is busy is not to look like nodes that are down, or whose clocks are off.
pub(crate) const PATIENT: &str = "timeout=5s&node_timeout=2s&clock_bound=400ms";

/// Servers, each also behind a proxy.
pub(crate) struct Nodes {
    pub(crate) servers: Vec<Redis>,
    pub(crate) proxies: Vec<Proxy>,
}

impl Nodes {
    /// Nodes whose stores grant at once.
    pub(crate) async fn start(count: usize) -> Self {
        let nodes = Self::bare(vec![RedisOptions::new(); count]).await;
        first_use(&*nodes.direct().await).await;
        nodes
    }

    pub(crate) async fn bare(options: Vec<RedisOptions>) -> Self {
        let (mut servers, mut proxies) = (Vec::new(), Vec::new());
        for options in options {
            let server = Redis::start(options).await.unwrap();
            proxies.push(Proxy::start(server.address()).await.unwrap());
            servers.push(server);
        }
        Self { servers, proxies }
    }

    pub(crate) fn url(&self, options: &str) -> String {
        let hosts: Vec<_> = self.servers.iter().map(|each| each.address().to_string()).collect();
        format!("redlock://{}?{options}", hosts.join(","))
    }

    pub(crate) fn proxied_url(&self, options: &str) -> String {
        let hosts: Vec<_> = self.proxies.iter().map(|each| each.address().to_string()).collect();
        format!("redlock://{}?{options}", hosts.join(","))
    }

    pub(crate) async fn direct(&self) -> Arc<dyn Backend> {
        connect(&self.url(PATIENT)).await
    }

    /// A client with a proxy between it and each node.
    pub(crate) async fn proxied(&self, options: &str) -> Arc<dyn Backend> {
        connect(&self.proxied_url(options)).await
    }

    /// How many nodes keep a record of the lock.
    pub(crate) async fn keeping(&self, name: &LockName) -> usize {
        let mut keeping = 0;
        for server in &self.servers {
            let key = format!("leasehold-redlock:{{0}}:lock:{name}");
            if let Ok(answer) = server.cli(&["EXISTS", &key]).await {
                keeping += usize::from(answer == "1");
            }
        }
        keeping
    }
}

pub(crate) async fn connect(url: &str) -> Arc<dyn Backend> {
    backend_redlock::connect(url).await.unwrap()
}

pub(crate) async fn first_use(store: &dyn Backend) {
    store.init(&Init::new().with_first_use(true)).await.unwrap();
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

pub(crate) fn request(text: &str, lease: Duration) -> Request {
    let label = OwnerLabel::new("test").unwrap();
    let owner = OwnerId::from_bits(SystemEnv.random());
    Request::new(name(text), owner, label, lease, SystemEnv.now())
}

pub(crate) async fn granted(store: &dyn Backend, request: &Request) -> Grant {
    match store.try_acquire(request).await.unwrap() {
        Attempt::Granted(grant) => grant,
        other => panic!("{} should have been free: {other:?}", request.name),
    }
}

pub(crate) async fn renewed(store: &dyn Backend, grant: &Grant) {
    let answer = store.renew(&[grant], SystemEnv.now()).await.pop();
    assert!(matches!(answer, Some(Renewal::Renewed { .. })), "{answer:?}");
}

pub(crate) async fn busy(store: &dyn Backend, request: &Request) -> Busy {
    match store.try_acquire(request).await.unwrap() {
        Attempt::Busy(busy) => busy,
        other => panic!("{} should have been busy: {other:?}", request.name),
    }
}

pub(crate) async fn place(store: &dyn Backend, request: &Request) -> (Box<dyn Waiter>, Busy) {
    match store.enqueue(request).await.unwrap() {
        Enqueued::Waiting(turn, busy) => (turn, busy),
        other => panic!("{} should have been busy: {other:?}", request.name),
    }
}

/// Asks until the answer is there.
pub(crate) async fn eventually<T, Fut>(what: &str, ask: impl Fn() -> Fut) -> T
where
    Fut: Future<Output = Option<T>>,
{
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, asking)
        .await
        .unwrap_or_else(|_| panic!("{what}: not within {SOON:?}"))
}
