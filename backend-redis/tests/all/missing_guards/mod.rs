//! Removes each guard from the scripts once. A proxy changes the text on its way to a real server,
//! and the case for that guard must fail. The same case must pass with the unchanged text.

mod cases;
mod first_use;
mod heartbeats;
mod readers;
mod records;
mod scripts;
pub(crate) mod server;
mod short_ways;
mod store;
#[path = "../../../src/scripts/text.rs"]
mod text;

use servers::Change::{LeaveOut, Replace};
use verification::missing_guards::{MissingGuard, every_marker_is_tried, try_all};

const FOLDERS: &[&str] = &[concat!(env!("CARGO_MANIFEST_DIR"), "/src/scripts")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_misses_its_guards() {
    try_all(FOLDERS, store::VARIANTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_heartbeats_miss_their_guards() {
    try_all(FOLDERS, heartbeats::VARIANTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_miss_their_guards() {
    try_all(FOLDERS, readers::VARIANTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_miss_their_guards() {
    try_all(FOLDERS, records::VARIANTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_scripts_miss_their_guards() {
    try_all(FOLDERS, scripts::VARIANTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_use_misses_its_guards() {
    try_all(FOLDERS, first_use::VARIANTS).await;
}

#[test]
fn each_guard_is_left_out_once() {
    let mut names = MissingGuard::names(store::VARIANTS);
    names.extend(MissingGuard::names(readers::VARIANTS));
    names.extend(MissingGuard::names(records::VARIANTS));
    names.extend(MissingGuard::names(scripts::VARIANTS));
    names.extend(MissingGuard::names(heartbeats::VARIANTS));
    names.extend(MissingGuard::names(first_use::VARIANTS));
    names.extend(short_ways::VARIANTS.iter().filter_map(|change| match *change {
        LeaveOut(name) | Replace(name, _) => Some(name),
        _ => None,
    }));
    every_marker_is_tried(FOLDERS, &names);
}
