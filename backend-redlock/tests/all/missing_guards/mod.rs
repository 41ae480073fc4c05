//! Removes each guard from the scripts once. A proxy changes the script on its way to a real
//! server, and the case for that guard must fail. The same case must pass with the unchanged
//! script.

mod node;
mod readers;
mod releases;
mod scripts;
mod short_ways;
mod votes;
mod waiting_readers;

use servers::Change::{LeaveOut, Replace};
use verification::missing_guards::{MissingGuard, every_marker_is_tried, try_all};

const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/scripts");
/// With the rule of renewals, which stands in the other crate.
const FOLDERS: &[&str] =
    &[OWN, concat!(env!("CARGO_MANIFEST_DIR"), "/../backend-redis/src/scripts/renewal.lua")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nodes_miss_their_guards() {
    try_all(FOLDERS, scripts::VARIANTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_readers_of_a_node_miss_their_guards() {
    try_all(FOLDERS, readers::VARIANTS).await;
    try_all(FOLDERS, waiting_readers::VARIANTS).await;
}

#[test]
fn each_guard_is_left_out_once() {
    let mut names = MissingGuard::names(scripts::VARIANTS);
    names.extend(MissingGuard::names(readers::VARIANTS));
    names.extend(MissingGuard::names(waiting_readers::VARIANTS));
    names.extend(short_ways::VARIANTS.iter().filter_map(|change| match *change {
        LeaveOut(name) | Replace(name, _) => Some(name),
        _ => None,
    }));
    every_marker_is_tried(&[OWN], &names);
}
