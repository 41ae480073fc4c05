//! Nodes of another cluster, and nodes that cannot be reached by their name.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use lock_core::ErrorKind;
use servers::{RedisCluster, RedisOptions, Server as _};

use crate::{
    RedisBuilder,
    discovery::Discovery,
    tests::discovery::{HOST, at, server},
};

/// The answer to CLUSTER SLOTS of a node that names a node with this id as the master of all slots.
fn slots(host: &str, port: u16, id: &str) -> String {
    let (host, id) = [host, id].map(|text| format!("${}\r\n{text}", text.len())).into();
    format!("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n{host}\r\n:{port}\r\n{id}\r\n")
}

/// A node of the cluster of `ours`, which later belongs to the cluster of `theirs`.
async fn node(ours: (u16, &'static str), theirs: (u16, &'static str)) -> (u16, Arc<AtomicBool>) {
    let moved = Arc::new(AtomicBool::new(false));
    let is_moved = Arc::clone(&moved);
    let port = server(move |words| match words.get(1).map(String::as_str) {
        Some("SLOTS") => {
            let (port, id) = if is_moved.load(Ordering::SeqCst) { theirs } else { ours };
            slots(HOST, port, id)
        }
        _ => "+OK\r\n".to_owned(),
    })
    .await;
    (port, moved)
}

#[tokio::test]
async fn a_node_of_another_cluster_in_a_nodes_place_is_refused() {
    let other = RedisCluster::start(1, 0, RedisOptions::new()).await.unwrap();
    let there = other.nodes()[0].address().port();
    let (seed, _) = node((there, "x"), (there, "x")).await;
    let error = RedisBuilder::cluster([(HOST, seed)]).build().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("another cluster"), "{error:?}");
}

#[tokio::test]
async fn a_node_that_joined_another_cluster_is_not_trusted() {
    let (first, moved) = node((1001, "x"), (1009, "y")).await;
    let (second, gone) = node((1001, "x"), (1009, "y")).await;
    let discovery =
        Discovery::new(&RedisBuilder::cluster([(HOST, first), (HOST, second)]).settings);
    assert_eq!(discovery.locate_slot(5).await.unwrap(), at(1001));
    moved.store(true, Ordering::SeqCst);
    for _ in 0..20 {
        // From now on the client asks all nodes.
        discovery.doubt(&at(1001));
        assert_eq!(discovery.locate_slot(5).await.unwrap(), at(1001));
    }
    // A cluster that was made anew on the same hosts.
    gone.store(true, Ordering::SeqCst);
    discovery.doubt(&at(1001));
    assert_eq!(discovery.locate_slot(5).await.unwrap(), at(1009));
}

#[tokio::test]
async fn nodes_of_two_clusters_are_no_store() {
    let (one, _) = node((1001, "x"), (1001, "x")).await;
    let (two, _) = node((1009, "y"), (1009, "y")).await;
    let discovery = Discovery::new(&RedisBuilder::cluster([(HOST, one), (HOST, two)]).settings);
    let error = discovery.locate_slot(5).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error:?}");
    assert!(error.to_string().contains("different clusters"), "{error}");
}

/// The map of a node that should announce a host name and has none. Its replica is not taken for
/// the master.
#[tokio::test]
async fn a_node_without_a_name_is_reported_and_not_replaced_by_another() {
    let seed = server(|words| match words.get(1).map(String::as_str) {
        Some("SLOTS") => {
            let node = |host: &str, port: u16| {
                format!("*3\r\n${}\r\n{host}\r\n:{port}\r\n$1\r\nx\r\n", host.len())
            };
            format!("*1\r\n*4\r\n:0\r\n:16383\r\n{}{}", node("?", 1001), node(HOST, 1002))
        }
        _ => "+OK\r\n".to_owned(),
    })
    .await;
    let discovery = Discovery::new(&RedisBuilder::cluster([(HOST, seed)]).settings);
    let error = discovery.locate_slot(5).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("cluster-announce-hostname"), "{error}");
}
