//! Nodes that refuse requests: for a while, or because of a key that somebody else has changed.

use lock_core::{ErrorKind, LockClient, Mode};
use servers::{Server as _, wait};

use crate::support::{
    LEASE, Nodes, PATIENT, SOON,
    direct::{said, talk_to},
    name, request,
};

#[tokio::test]
async fn nodes_with_a_full_connection_table_are_waited_out() {
    let nodes = Nodes::start(3).await;
    let client = LockClient::new(nodes.direct().await);
    let mut operators = Vec::new();
    for server in &nodes.servers[..2] {
        let mut operator = talk_to(server.address()).await;
        said(&mut operator, &["CONFIG", "SET", "maxclients", "1"]).await;
        said(&mut operator, &["CLIENT", "KILL", "TYPE", "normal"]).await;
        operators.push(operator);
    }
    let error = backend_redlock::connect(&nodes.url(PATIENT)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let acquiring = tokio::spawn(async move { client.lock(name("a")).acquire().await });
    for operator in &operators {
        let refused = wait::until("refused connections", SOON, || async {
            let stats = said(&mut operator.clone(), &["INFO", "stats"]).await;
            let count = stats.lines().find_map(|line| line.strip_prefix("rejected_connections:"));
            Ok((count.unwrap().trim().parse::<u64>().unwrap() > 3).then_some(()))
        });
        refused.await.unwrap();
    }
    for operator in &mut operators {
        said(operator, &["CONFIG", "SET", "maxclients", "100"]).await;
    }
    let acquired = tokio::time::timeout(SOON, acquiring).await.unwrap().unwrap().unwrap();
    acquired.release().await.unwrap();
}

#[tokio::test]
async fn an_unreadable_key_is_named_with_its_remedy() {
    let nodes = Nodes::start(3).await;
    let store = nodes.direct().await;
    for (kind, remedy) in [("queue", "DEL"), ("entries", "DEL"), ("epoch", "longest lease")] {
        let key = match kind {
            "epoch" => "leasehold-redlock:{0}:epoch".to_owned(),
            kind => format!("leasehold-redlock:{{0}}:{kind}:a"),
        };
        for server in &nodes.servers[1..] {
            server.cli(&["DEL", &key]).await.unwrap();
            server.cli(&["SET", &key, "nonsense"]).await.unwrap();
        }
        // A reader's attempt does not take the short way, which reads no entries.
        let asked = request("a", LEASE).with_mode(Mode::Shared);
        let error = match kind {
            "queue" => store.abandon(&asked).await.unwrap_err(),
            _ => store.try_acquire(&asked).await.unwrap_err(),
        };
        let shown = format!("{error:?}");
        assert_eq!(error.kind(), ErrorKind::Config, "{kind}: {shown}");
        assert!(shown.contains(&format!("{key:?}")) && shown.contains(remedy), "{kind}: {shown}");
        if kind != "epoch" {
            for server in &nodes.servers[1..] {
                server.cli(&["DEL", &key]).await.unwrap();
            }
        }
    }
    let error = backend_redlock::connect(&nodes.url(PATIENT)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error:?}");
    assert!(format!("{error:?}").contains("DEL"), "{error:?}");
}
