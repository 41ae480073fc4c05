//! Every store of this machine beside its floors and beside other libraries' locks on the same servers,
//! in one run: what `leasehold compare --local` measures, with peers, and the ratios that this project
//! wants.
//!
//! `cargo bench -p benchmarks --bench ratios -- [--for 5m] [--page FILE] [--json FILE] [--holder FILE]`,
//! where the holder is the `leasehold` command, of which a process is to be killed.
#![allow(clippy::unwrap_used, missing_docs)]

mod peers;

use std::{future::pending, time::Duration};

use comparison::{Comparison, Holder, Local, Plan, Watch, embedded};

/// The value of an option.
fn option(name: &str) -> Option<String> {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.next().and_then(|_| args.next())
}

struct Progress;

impl Watch for Progress {
    fn next(&mut self, elapsed: Duration, of: Duration, store: &str, measure: &str) {
        eprint!(
            "\r\u{1b}[K{:.0} of {:.0} s: {store}: {measure}",
            elapsed.as_secs_f64(),
            of.as_secs_f64()
        );
    }
}

fn main() {
    // Cargo tests benches, too, by running them: this one is for figures only.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let span = option("--for").map_or(300, |text| text.trim_end_matches('s').parse().unwrap());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async {
        let (mut stores, _folder) = embedded().unwrap();
        let mut local = Local::start().await;
        let mut peers = Vec::new();
        for store in &local.stores {
            peers.extend(peers::of(store).await);
        }
        stores.append(&mut local.stores);
        let comparison = Comparison::new(stores, Plan::new(Duration::from_secs(span)).unwrap())
            .absent(local.absent.clone())
            .holder(option("--holder").map(Holder::new))
            .peers(peers);
        let report = comparison.run(&mut Progress, pending()).await.unwrap().unwrap();
        eprintln!();
        print!("{report}");
        if let Some(file) = option("--page") {
            std::fs::write(file, report.page().unwrap()).unwrap();
        }
        if let Some(file) = option("--json") {
            std::fs::write(file, serde_json::to_string_pretty(&report).unwrap()).unwrap();
        }
    });
}
