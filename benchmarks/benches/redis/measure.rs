//! Medians in slices, and rates.

use std::time::{Duration, Instant};

use benchmarks::{Call, many, quantile};

/// Medians of calls one after the other, in µs. The kinds take turns in short slices, so that what
/// disturbs the machine disturbs all alike.
pub(crate) async fn latencies(kinds: &[(&str, Call)]) -> Vec<f64> {
    let mut spans = vec![Vec::new(); kinds.len()];
    for slice in 0..40 {
        for ((_, call), spans) in kinds.iter().zip(&mut spans) {
            for round in 0..150 {
                let start = Instant::now();
                call(0).await;
                // The first slice and the first rounds of each warm up.
                if slice > 0 && round >= 10 {
                    spans.push(start.elapsed());
                }
            }
        }
    }
    let medians: Vec<_> = spans.iter_mut().map(|spans| quantile(spans, 0.5)).collect();
    for ((label, _), micros) in kinds.iter().zip(&medians) {
        println!("{label:<46} {micros:>9.1} µs");
    }
    medians
}

/// How often per second 64 tasks together finish a call, each on its own name: medians of slices
/// taken in turn.
pub(crate) async fn rates(kinds: Vec<(&'static str, Call)>) -> Vec<f64> {
    let mut rates = vec![Vec::new(); kinds.len()];
    for _ in 0..7 {
        for ((_, call), rates) in kinds.iter().zip(&mut rates) {
            rates.push(many(call, 64, Duration::from_millis(500)).await.per_second);
        }
    }
    let mut medians = Vec::new();
    for ((label, _), mut rates) in kinds.into_iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        medians.push(rates[rates.len() / 2]);
        println!("{label:<46} {:>9.0} /s", rates[rates.len() / 2]);
    }
    medians
}
