//! Kinds of calls that take turns in short slices, so that other work on the machine disturbs all
//! of them alike.

use std::time::{Duration, Instant};

use super::{Call, many, median, quantile};

/// The figures of each kind, slice by slice.
#[derive(Debug)]
pub struct Slices(Vec<Vec<f64>>);

impl Slices {
    /// The ratio of two kinds, by their index: the median of the slices' ratios.
    #[must_use]
    pub fn ratio(&self, of: usize, to: usize) -> f64 {
        median(self.0[of].iter().zip(&self.0[to]).map(|(of, to)| of / to).collect())
    }

    fn print(self, kinds: &[(&str, Call)], unit: &str) -> Self {
        for ((label, _), slices) in kinds.iter().zip(&self.0) {
            println!("{label:<46} {:>9.1} {unit}", median(slices.clone()));
        }
        self
    }
}

/// Times of calls that one task makes one after the other: the median of each slice of 140 calls,
/// in µs.
pub async fn latencies(kinds: &[(&str, Call)]) -> Slices {
    let mut all = vec![Vec::new(); kinds.len()];
    for slice in 0..40 {
        for ((_, call), slices) in kinds.iter().zip(&mut all) {
            let mut spans = Vec::new();
            for round in 0..150 {
                let start = Instant::now();
                call(0).await;
                // The first slice, and the first calls of each slice, warm up.
                if slice > 0 && round >= 10 {
                    spans.push(start.elapsed());
                }
            }
            if slice > 0 {
                slices.push(quantile(&mut spans, 0.5));
            }
        }
    }
    Slices(all).print(kinds, "µs")
}

/// Calls per second of 64 tasks together, each on a name of its own.
pub async fn rates(kinds: &[(&str, Call)]) -> Slices {
    let mut all = vec![Vec::new(); kinds.len()];
    for _ in 0..9 {
        for ((_, call), slices) in kinds.iter().zip(&mut all) {
            slices.push(many(call, 64, Duration::from_millis(500)).await.per_second);
        }
    }
    Slices(all).print(kinds, "/s")
}
