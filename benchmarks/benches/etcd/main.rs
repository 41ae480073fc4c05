//! What a lock in etcd costs, beside bare requests and beside the plain protocol: a lease, etcd's own Lock
//! call, a revoke.
//!
//! `cargo bench -p benchmarks --bench etcd`, or with `-- PART…` only some of: `single`, `parts`, `contended`.
//!
//! All that is compared runs in turn, in many short rounds, so that a disk that is slow for a while is slow
//! for everybody; figures are medians over the rounds.

#![allow(clippy::unwrap_used, missing_docs)]

mod contended;
mod parts;
mod peers;
mod single;

use conformance_tests::kit::{Etcd, EtcdOptions};

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let args: Vec<String> = std::env::args().collect();
    if runtime.block_on(benchmarks::child()) {
        return;
    }
    // Cargo tests benches, too, by running them: this one is for figures only.
    if !args.iter().any(|arg| arg == "--bench") {
        return;
    }
    runtime.block_on(async {
        // etcd's own timers, and a data folder of its own on the disk of temporary files.
        let options =
            EtcdOptions::new().flag("--heartbeat-interval=100").flag("--election-timeout=1000");
        let etcd = Etcd::single(options).await.unwrap();
        let asked: Vec<_> = args.iter().skip(1).filter(|arg| !arg.starts_with('-')).collect();
        let wanted = |part: &str| asked.is_empty() || asked.iter().any(|arg| *arg == part);
        if wanted("single") {
            single::run(&etcd).await;
        }
        if wanted("parts") {
            parts::run(&etcd).await;
        }
        if wanted("contended") {
            contended::run(&etcd).await;
        }
    });
}

/// The middle of what was measured.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
