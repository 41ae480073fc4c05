//! Tests of the client's inside, on real servers or on made-up answers. They are part of the
//! crate's unit tests.

mod background;
mod majority;
mod votes;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use backend_redis::RedisBuilder;
use lock_core::{
    Backend as _, Env as _, Grant, LockName, Mode, OwnerId, ReleaseOptions, Request, SystemEnv,
};
use servers::Mode as Link;

use self::support::{LEASE, Nodes, SOON, eventually, request};
use crate::{
    RedlockBuilder, backend::Redlock, batch, protocol::grant_votes::GrantVotes,
    quorum::nodes::Quorum,
};

#[path = "../all/support/mod.rs"]
mod support;

/// Wide, so that a busy machine does not look like wrong clocks.
const BOUND: Duration = Duration::from_secs(3);
/// Longer than a call takes if nothing is late, and shorter than any call waits.
const LATE: Duration = Duration::from_millis(500);

fn described(addresses: &[SocketAddr]) -> RedlockBuilder {
    let node = |address: &SocketAddr| RedisBuilder::tcp(address.ip().to_string(), address.port());
    RedlockBuilder::new(addresses.iter().map(node))
        .clock_bound(BOUND)
        .node_timeout(Duration::from_secs(3))
        .timeout(Duration::from_secs(5))
}

/// A client of three nodes that it never asks.
fn unasked() -> Quorum {
    described(&[1, 2, 3].map(|port| ([127, 0, 0, 1], port).into())).quorum().unwrap()
}

async fn client(builder: RedlockBuilder) -> Redlock {
    let quorum = Arc::new(builder.quorum().unwrap());
    for at in 0..quorum.nodes.len() {
        quorum.hello(at).await.unwrap();
    }
    Redlock::new(quorum)
}

/// A client with a short time limit, since one of its nodes will not answer.
async fn quick(nodes: &Nodes, timeout: Duration) -> Redlock {
    let builder = described(&proxied(nodes)).timeout(timeout).node_timeout(3 * LATE);
    let store = client(builder).await;
    warmed(nodes, &store).await;
    store
}

/// From here on all nodes know the scripts, so a call is one request.
async fn warmed(nodes: &Nodes, store: &Redlock) {
    let free = async |name: &LockName| {
        let none = || async { (nodes.keeping(name).await == 0).then_some(()) };
        eventually("all to be free", none).await;
    };
    for mode in [Mode::Exclusive, Mode::Shared] {
        let asked = request("warm", LEASE).with_mode(mode);
        let grant = granted_by_all(nodes, store, &asked).await;
        store.renew(&[&grant], SystemEnv.now()).await;
        released(store, &grant).await;
        free(&grant.name).await;
    }
    let grant = gathered(store, &request("warm", LEASE)).await.unwrap();
    released_in_a_batch(store, &grant).await;
    free(&grant.name).await;
}

/// Three nodes that grant at once, and a client with a proxy before each.
async fn three() -> (Nodes, Redlock) {
    let nodes = Nodes::start(3).await;
    let store = client(described(&proxied(&nodes))).await;
    warmed(&nodes, &store).await;
    (nodes, store)
}

fn proxied(nodes: &Nodes) -> Vec<SocketAddr> {
    nodes.proxies.iter().map(|proxy| proxy.address()).collect()
}

fn lock(name: &LockName) -> String {
    format!("leasehold-redlock:{{0}}:lock:{name}")
}

async fn set(nodes: &Nodes, at: usize, name: &LockName, owner: OwnerId, number: u64) {
    let record = format!("{owner} {number} 0 1 foreign");
    nodes.servers[at].cli(&["SET", &lock(name), &record, "PX", "20000"]).await.unwrap();
}

/// Another owner has the lock on these nodes.
async fn taken(nodes: &Nodes, by: &[usize], name: &LockName) {
    for at in by {
        set(nodes, *at, name, OwnerId::from_bits(1), 7).await;
    }
}

async fn forgotten(nodes: &Nodes, by: &[usize], name: &LockName) {
    for at in by {
        assert_eq!(nodes.servers[*at].cli(&["DEL", &lock(name)]).await.unwrap(), "1");
    }
}

async fn late(nodes: &Nodes, at: usize) {
    let mode = Link::Delay { to_server: LATE, to_client: Duration::ZERO };
    nodes.proxies[at].set(mode).await.unwrap();
}

async fn cut(nodes: &Nodes, which: &[usize]) {
    for at in which {
        nodes.proxies[*at].set(Link::Cut).await.unwrap();
    }
}

/// No call waits for this node, and no probe asks it.
fn passed_over(store: &Redlock, at: usize) {
    assert!(store.quorum.nodes[at].suspect("the case says so"));
}

/// Puts an attempt into a batch.
async fn gathered(store: &Redlock, request: &Request) -> Option<Grant> {
    batch::gather_attempt(&store.queue, &store.quorum, request).await.unwrap()
}

async fn released(store: &Redlock, grant: &Grant) {
    store.release(grant, ReleaseOptions::default()).await.unwrap();
}

async fn released_in_a_batch(store: &Redlock, grant: &Grant) {
    let held = GrantVotes::of(grant).unwrap();
    held.release();
    batch::gather_release(&store.queue, &store.quorum, grant, held, None).await.unwrap();
}

/// A grant that all nodes keep.
async fn granted_by_all(nodes: &Nodes, store: &Redlock, request: &Request) -> Grant {
    let grant = support::granted(store, request).await;
    let all = || async { (nodes.keeping(&request.name).await == 3).then_some(()) };
    eventually("the third node", all).await;
    grant
}

/// Waits for all background tasks.
async fn settled(store: &Redlock) {
    store.quorum.close(SOON).await;
}
