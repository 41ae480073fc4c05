//! Cases of the client's own guards, each as short as what it shows allows.

mod behind;
mod majority;
mod places;
mod tokens;
mod votes;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use backend_redis::RedisBuilder;
use conformance_tests::kit::{Mode, Server as _};
use lock_core::{Env as _, Grant, LockName, OwnerId, Request, SystemEnv};

use crate::{
    RedlockBuilder,
    held::Held,
    quorum::Quorum,
    support::{LEASE, Nodes, SOON, eventually, name, request},
};

/// Wide, so that a machine that is busy does not look like clocks that are off.
const BOUND: Duration = Duration::from_secs(3);
/// Longer than it takes when nothing is late, and shorter than anybody waits.
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

async fn client(builder: RedlockBuilder) -> Arc<Quorum> {
    let quorum = Arc::new(builder.quorum().unwrap());
    for at in 0..quorum.peers.len() {
        quorum.hello(at).await.unwrap();
    }
    quorum
}

/// From here on all nodes know the scripts, so that a call is one request.
async fn warmed(nodes: &Nodes, quorum: &Arc<Quorum>) {
    let free = async |name: &LockName| {
        let none = || async { (nodes.keeping(name).await == 0).then_some(()) };
        eventually("all to be free", none).await;
    };
    let grant = granted_by_all(nodes, quorum, &request("warm", LEASE)).await;
    quorum.renew_batch(&[&grant], SystemEnv.now()).await;
    quorum.release(&grant, None, None).await.unwrap();
    free(&grant.name).await;
    let grant = quorum.gather_attempt(&request("warm", LEASE)).await.unwrap().unwrap();
    quorum.gather_release(&grant, Held::of(&grant).unwrap(), None).await.unwrap();
    free(&grant.name).await;
}

/// Three nodes that grant at once, and a client with a proxy between it and each.
async fn three() -> (Nodes, Arc<Quorum>) {
    let nodes = Nodes::start(3).await;
    let quorum = client(described(&proxied(&nodes))).await;
    warmed(&nodes, &quorum).await;
    (nodes, quorum)
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

/// Somebody else has the lock on these nodes.
async fn taken(nodes: &Nodes, who: &[usize], name: &LockName) {
    for at in who {
        set(nodes, *at, name, OwnerId::from_bits(1), 7).await;
    }
}

async fn forgotten(nodes: &Nodes, who: &[usize], name: &LockName) {
    for at in who {
        assert_eq!(nodes.servers[*at].cli(&["DEL", &lock(name)]).await.unwrap(), "1");
    }
}

async fn note(nodes: &Nodes, at: usize, field: &str, number: u64) {
    let epoch = "leasehold-redlock:{0}:epoch";
    nodes.servers[at].cli(&["HSET", epoch, field, &number.to_string()]).await.unwrap();
}

async fn late(nodes: &Nodes, at: usize) {
    let mode = Mode::Delay { to_server: LATE, to_client: Duration::ZERO };
    nodes.proxies[at].set(mode).await.unwrap();
}

async fn cut(nodes: &Nodes, who: &[usize]) {
    for at in who {
        nodes.proxies[*at].set(Mode::Cut).await.unwrap();
    }
}

/// Nobody waits for this node, and nobody asks it how it is.
fn passed_over(quorum: &Quorum, at: usize) {
    assert!(quorum.peers[at].suspect("the case says so"));
}

async fn attempt(quorum: &Arc<Quorum>, request: &Request) -> lock_core::Attempt {
    quorum.attempt(request, None).await.unwrap()
}

async fn granted(quorum: &Arc<Quorum>, request: &Request) -> Grant {
    match attempt(quorum, request).await {
        lock_core::Attempt::Granted(grant) => grant,
        other => panic!("{} should have been free: {other:?}", request.name),
    }
}

/// A grant that all nodes keep.
async fn granted_by_all(nodes: &Nodes, quorum: &Arc<Quorum>, request: &Request) -> Grant {
    let grant = granted(quorum, request).await;
    let all = || async { (nodes.keeping(&request.name).await == 3).then_some(()) };
    eventually("the third node", all).await;
    grant
}

/// Lets everything that runs behind come to its end.
async fn settled(quorum: &Arc<Quorum>) {
    quorum.close(SOON).await;
}
