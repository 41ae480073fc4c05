//! Twelve processes move from one store to another and back while they contend, and some are killed.
//!
//! The test is its own child: see [`child`]. What the children saw is judged as one history.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod pairs;
mod rolling;

use std::{env, process::ExitCode};

use self::{
    pairs::Kind,
    rolling::{child, fleet},
};

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if let Some(part) = child::Part::of_this_process() {
        runtime.block_on(part.play());
        return ExitCode::SUCCESS;
    }
    let pairs = [
        ("redis-etcd", Kind::Redis, Kind::Etcd),
        ("redis-redlock", Kind::Redis, Kind::Redlock),
        ("sqlite-postgres", Kind::Sqlite, Kind::Postgres),
    ];
    let filter = env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let list = env::args().any(|arg| arg == "--list");
    for (name, from, to) in pairs.into_iter().filter(|(name, ..)| name.contains(&filter)) {
        if list {
            println!("rolling::{name}: test");
            continue;
        }
        // A panic ends the program, with its message, and the servers with it.
        let told = runtime.block_on(fleet::roll(from, to));
        println!("test rolling::{name} ... ok\n    {told}");
    }
    ExitCode::SUCCESS
}
