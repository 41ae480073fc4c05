//! The documented permissions are those that the scripts and the client need. `conformance.rs` runs
//! every case with them.

use std::collections::BTreeSet;

use servers::{Redis, RedisOptions, Server as _};

use crate::support::{
    connect,
    permissions::{commands_of, documented_acl, of_client, of_scripts},
    shared_cases::{assert_permitted_no_more, use_every_operation},
};

const RUSTDOC: &str = include_str!("../../src/lib.rs");
const PAGE: &str = include_str!("../../../docs/backends/redis.md");

/// Commands for one server, or for a cluster, alone.
const OF_ONE_SERVER: &[&str] = &["publish", "scan", "script", "select", "subscribe", "unsubscribe"];
const OF_A_CLUSTER: &[&str] = &["asking", "cluster", "spublish", "ssubscribe"];
/// Commands for some settings, which the text names.
const OPTIONAL: [&str; 3] = ["+wait", "+sentinel|get-master-addr-by-name", "+sentinel|master"];

#[test]
fn the_documented_permissions_are_those_that_scripts_and_client_need() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut needed = of_scripts(source);
    needed.extend(of_client(source));
    assert!(OPTIONAL.iter().all(|command| RUSTDOC.contains(command)));
    for command in commands_of(&OPTIONAL.join(" ")) {
        assert!(needed.remove(&command), "nobody sends {command}");
    }
    let without = |left_out: &[&str]| {
        let left_out = left_out.iter().map(|command| (*command).to_owned()).collect();
        assert!(BTreeSet::is_subset(&left_out, &needed), "nobody sends all of {left_out:?}");
        &needed - &left_out
    };
    let listed = |text, heading| commands_of(&documented_acl(text, heading, "leasehold"));
    assert_eq!(listed(RUSTDOC, "# Permissions"), without(OF_A_CLUSTER));
    assert_eq!(listed(PAGE, "## Permissions"), without(OF_A_CLUSTER));
    assert_eq!(listed(RUSTDOC, "In a cluster:"), without(OF_ONE_SERVER));
}

#[tokio::test]
async fn the_documented_permissions_are_enough_and_no_more() {
    let acl = documented_acl(RUSTDOC, "# Permissions", "leasehold");
    let server = Redis::start(RedisOptions::new().line(acl)).await.unwrap();
    let store = connect(&format!("redis://app:hunter2@{}", server.address())).await;
    use_every_operation(&*store, None).await;
    // The idle subscription is dropped with this command.
    assert_eq!(server.cli(&["ACL", "DRYRUN", "app", "UNSUBSCRIBE"]).await.unwrap(), "OK");
    assert_permitted_no_more(&server).await;
}
