//! Processes move from one store to another and back while they contend, and some are killed.
//!
//! The test is its own child: see [`child`]. What the children saw is judged as one history. Six
//! processes go between two pairs of stores. With `LEASEHOLD_SOAK=1` twelve go between every two
//! families, both ways, and the test prints a row for each pair. `docs/migration-soak.md` has the
//! totals.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod child;
mod fleet;
mod judge;
mod report;
mod resource;

use std::{env, process::ExitCode};

use verification::stores::pairs::Kind;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if let Some(spec) = child::ChildSpec::of_this_process() {
        runtime.block_on(spec.run());
        return ExitCode::SUCCESS;
    }
    let gate = [(Kind::Redis, Kind::Etcd), (Kind::Sqlite, Kind::Postgres)];
    // The soak profile: every ordered pair.
    let all = Kind::ALL.into_iter().flat_map(|from| Kind::ALL.map(|to| (from, to)));
    let soak = child::size() == 1;
    let pairs: Vec<_> =
        if soak { all.filter(|(from, to)| from != to).collect() } else { gate.into() };
    let filter = env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let list = env::args().any(|arg| arg == "--list");
    let mut failed = false;
    for (from, to) in pairs {
        let name = format!("{from:?}-{to:?}").to_lowercase();
        if !name.contains(&filter) {
            continue;
        }
        if list {
            println!("rolling::{name}: test");
            continue;
        }
        // A panic ends the task, with its message, and its servers and processes with it.
        let task = async { tokio::spawn(fleet::roll(from, to, if soak { 3 } else { 1 })).await };
        let rolled = runtime.block_on(task).ok();
        if soak {
            println!("{}", rolled.as_ref().map_or_else(String::new, |rolled| rolled.row(&name)));
        }
        let result = rolled
            .as_ref()
            .map_or_else(|| "it failed; see the panic above".into(), ToString::to_string);
        let violations = rolled.iter().flat_map(|rolled| &rolled.violations);
        let violations: String = violations.map(|violation| format!("{violation}\n")).collect();
        let right = rolled.is_some() && violations.is_empty();
        let word = if right { "ok" } else { "FAILED" };
        println!("test rolling::{name} ... {word}\n    {result}\n{violations}");
        failed |= !right;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
