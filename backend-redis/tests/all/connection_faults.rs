//! The connection fails during each operation of a client, in each possible way. Once the fault is
//! over, the caller gets its result, and nothing is left behind. Each fault is seen to happen.

use std::{sync::Arc, time::Duration};

use lock_core::{Backend, Guard, LockClient, ReleaseOptions};
use servers::{ClientCertificates, Counters, Mode, Proxy, Redis, RedisOptions, Server as _};

use crate::support::{
    connect, connect_soon, free, granted, name, queued, request, server_with, url,
};

const LEASE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(30);
const DELAY: Duration = Duration::from_millis(300);

const SCHEMES: [&str; 2] = ["redis", "rediss"];

/// A fault, and the counter of the proxy that shows it.
type Fault = (Mode, fn(&Counters) -> u64);

fn faults() -> [Fault; 6] {
    let delay = |to_server, to_client| Mode::Delay { to_server, to_client };
    [
        (Mode::Cut, |counters| counters.cut),
        (Mode::Reset, |counters| counters.reset),
        (Mode::HalfCut, |counters| counters.to_client.swallowed),
        (Mode::BlackHole, |counters| counters.to_server.swallowed),
        (delay(DELAY, Duration::ZERO), |counters| counters.to_server.waiting),
        (delay(Duration::ZERO, DELAY), |counters| counters.to_client.waiting),
    ]
}

/// A server, a client through a proxy, and a store without the proxy.
struct Scene {
    proxy: Proxy,
    direct: Arc<dyn Backend>,
    client: LockClient,
    _server: Redis,
}

impl Scene {
    async fn new(scheme: &str) -> Self {
        let server = server_with(RedisOptions::new().tls(ClientCertificates::NotAsked)).await;
        let (plain, encrypted) = (server.address(), server.tls_address().unwrap());
        let (to, trust) = match scheme {
            "rediss" => (encrypted, format!("&ca={}", server.certificates().unwrap().ca.display())),
            _ => (plain, String::new()),
        };
        let proxy = Proxy::start(to).await.unwrap();
        let direct = connect(&url(&server)).await;
        let address = proxy.address();
        let through = format!("{scheme}://{address}?timeout=700ms{trust}");
        let client = LockClient::new(connect_soon(&through).await);
        // From here on the server knows the scripts.
        let guard = client.lock(name("warm")).acquire().await.unwrap();
        guard.release().await.unwrap();
        Self { proxy, direct, client, _server: server }
    }

    async fn seen(&self, reached: impl FnMut(&Counters) -> bool) {
        self.proxy.until("the fault", SOON, reached).await.unwrap();
    }

    /// Runs `work`, and applies the fault to what it has just sent. Ends the fault as soon as it
    /// was seen; a delay only ends after the work.
    async fn under<T>(&self, (mode, sign): Fault, work: impl Future<Output = T>) -> T {
        let delay = matches!(mode, Mode::Delay { .. });
        let fault = async {
            if !delay {
                self.proxy.set(Mode::Hold).await.unwrap();
                self.seen(|counters| counters.to_server.waiting > 0).await;
            }
            let before = sign(&self.proxy.counters());
            self.proxy.set(mode).await.unwrap();
            self.seen(|counters| sign(counters) > before).await;
            if !delay {
                self.proxy.set(Mode::Pass).await.unwrap();
            }
        };
        // The fault comes first, so that it is there when the work begins.
        let both = futures_util::future::join(fault, work);
        let ((), output) = tokio::time::timeout(SOON, both).await.unwrap();
        self.proxy.set(Mode::Pass).await.unwrap();
        output
    }

    async fn acquire(&self) -> Guard {
        self.client.lock(name("a")).lease(LEASE).wait(SOON).acquire().await.unwrap()
    }
}

/// Each fault alone, without TLS and with it.
async fn each(work: impl AsyncFn(&Scene, Fault)) {
    for scheme in SCHEMES {
        let scene = Scene::new(scheme).await;
        for fault in faults() {
            work(&scene, fault).await;
            // Nothing is left, also not of background tasks.
            free(&*scene.direct, "a").await;
        }
    }
}

#[tokio::test]
async fn an_acquire_ends_with_one_lock_whatever_happens_to_its_connection() {
    each(async |scene, fault| {
        let guard = scene.under(fault, scene.acquire()).await;
        let state = scene.direct.inspect(guard.name()).await.unwrap().unwrap();
        assert_eq!((state.holder.unwrap().owner, state.token), (guard.owner(), guard.token()));
        guard.release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_release_gets_through_whatever_happens_to_its_connection() {
    each(async |scene, fault| {
        let guard = scene.acquire().await;
        scene.under(fault, guard.release()).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_held_lock_outlives_a_fault_that_is_shorter_than_its_lease() {
    const SHORT: Duration = Duration::from_secs(12);
    let each = faults().map(|fault| async move {
        let scene = Scene::new("redis").await;
        let lock = scene.client.lock(name("a")).lease(SHORT);
        let guard = lock.wait(SOON).acquire().await.unwrap();
        let (mode, sign) = fault;
        let before = sign(&scene.proxy.counters());
        scene.proxy.set(mode).await.unwrap();
        // The first renewal, at the latest after a third of the lease, happens during the fault.
        scene.seen(|counters| sign(counters) > before).await;
        tokio::time::sleep((SHORT / 2).saturating_sub(SHORT - guard.remaining())).await;
        scene.proxy.set(Mode::Pass).await.unwrap();
        let renewed = async {
            while guard.remaining() < SHORT * 3 / 4 {
                assert!(guard.is_valid(), "{fault:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(SOON, renewed).await.unwrap();
        let state = scene.direct.inspect(guard.name()).await.unwrap().unwrap();
        assert_eq!(state.token, guard.token());
        guard.release().await.unwrap();
    });
    futures_util::future::join_all(each).await;
}

#[tokio::test]
async fn a_waiter_is_served_whatever_happens_to_its_connection() {
    each(async |scene, fault| {
        let held = granted(&*scene.direct, &request("a", LEASE)).await;
        let client = scene.client.clone();
        let waiting = tokio::spawn(async move {
            client.lock(name("a")).lease(LEASE).wait(SOON).acquire().await.unwrap()
        });
        queued(&*scene.direct, "a", 1).await;
        // The handoff happens during the fault.
        let served = async {
            scene.direct.release(&held, ReleaseOptions::default()).await.unwrap();
            waiting.await.unwrap()
        };
        let guard = scene.under(fault, served).await;
        assert!(guard.token() > held.token);
        guard.release().await.unwrap();
    })
    .await;
}
