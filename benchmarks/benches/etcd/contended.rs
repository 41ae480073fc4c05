//! Many who want the same lock, as tasks of one process and in several.

use std::time::Duration;

use benchmarks::{Children, seen};
use conformance_tests::kit::Etcd;

use crate::{median, peers};

const ROUNDS: usize = 5;
const SPAN: Duration = Duration::from_secs(2);

pub(crate) async fn run(etcd: &Etcd) {
    let url = format!("etcd://{}", peers::address(etcd));
    for (what, processes, tasks) in
        [("16 tasks of one process", 1, 16), ("8 processes of 4 tasks", 8, 4)]
    {
        let mut contenders = Vec::new();
        for kind in ["leasehold", "lock-api"] {
            contenders.push(Children::start(kind, &url, processes, tasks).await);
        }
        let mut figures = [[Vec::new(), Vec::new(), Vec::new()], Default::default()];
        for _ in 0..ROUNDS {
            for (contender, figures) in contenders.iter_mut().zip(&mut figures) {
                let seen = seen(&mut contender.compete(SPAN).await);
                figures[0].push(seen.per_second);
                figures[1].push(seen.p50);
                figures[2].push(seen.p99);
            }
        }
        let [ours, plain] = figures.map(|figures| figures.map(median));
        println!("{what} on one name, medians of {ROUNDS} rounds of {SPAN:?}");
        println!(
            "  handoffs per second   {:9.0}   plain: {:9.0}   {:6.2} x",
            ours[0],
            plain[0],
            ours[0] / plain[0]
        );
        println!("  handoff, median    {:9.0} µs   plain: {:9.0} µs", ours[1], plain[1]);
        println!(
            "  handoff, 99 of 100 {:9.0} µs   plain: {:9.0} µs  1/{:.1}",
            ours[2],
            plain[2],
            plain[2] / ours[2]
        );
    }
}
