//! Kinds of calls that take turns in short slices, so that what disturbs the machine disturbs all alike.

use std::time::{Duration, Instant};

use crate::{Call, many, quantile};

/// What was measured of each kind, slice by slice.
#[derive(Debug)]
pub struct Slices(Vec<Vec<f64>>);

impl Slices {
    /// The ratio of two kinds, by their places: the median of the slices' ratios.
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians of calls one after the other, in µs, each of 140 calls.
pub async fn latencies(kinds: &[(&str, Call)]) -> Slices {
    let mut all = vec![Vec::new(); kinds.len()];
    for slice in 0..40 {
        for ((_, call), slices) in kinds.iter().zip(&mut all) {
            let mut spans = Vec::new();
            for round in 0..150 {
                let start = Instant::now();
                call(0).await;
                // The first slice and the first rounds of each warm up.
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

/// How often per second 64 tasks together finish a call, each on its own name.
pub async fn rates(kinds: &[(&str, Call)]) -> Slices {
    let mut all = vec![Vec::new(); kinds.len()];
    for _ in 0..9 {
        for ((_, call), slices) in kinds.iter().zip(&mut all) {
            slices.push(many(call, 64, Duration::from_millis(500)).await.per_second);
        }
    }
    Slices(all).print(kinds, "/s")
}
