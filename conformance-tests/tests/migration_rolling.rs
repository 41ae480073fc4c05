//! Twelve processes move from one store to another and back while they contend, and some are killed.
//!
//! The test is its own child: see [`child`]. What the children saw is judged as one history. With
//! `LEASEHOLD_SOAK=1` it goes between every two families of stores, both ways.

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
    let gate =
        [(Kind::Redis, Kind::Etcd), (Kind::Redis, Kind::Redlock), (Kind::Sqlite, Kind::Postgres)];
    // The soak profile: every ordered pair.
    let all = Kind::ALL.into_iter().flat_map(|from| Kind::ALL.map(|to| (from, to)));
    let soak = env::var_os("LEASEHOLD_SOAK").is_some();
    let pairs: Vec<_> =
        if soak { all.filter(|(from, to)| from != to).collect() } else { gate.into() };
    let filter = env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let list = env::args().any(|arg| arg == "--list");
    for (from, to) in pairs {
        let name = format!("{from:?}-{to:?}").to_lowercase();
        if !name.contains(&filter) {
            continue;
        }
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
