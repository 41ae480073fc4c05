//! Samples: the result of one measurement in one round, and statistics over several of them.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::measurement::Measure;

/// One measurement of one store in one round.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Sample {
    /// How many operations ended.
    pub count: u64,
    /// Operations per second.
    pub per_second: f64,
    /// Half of them took at most this long, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 took at most this long, in microseconds.
    pub p99_us: f64,
    /// The times at [`QUANTILES`], in microseconds.
    pub quantiles_us: [f64; 5],
    /// The count of the store, per operation, if the store counts; see
    /// [`StoreReport::counts`](crate::StoreReport::counts).
    pub counted_per_operation: Option<f64>,
    /// The same per second.
    pub counted_per_second: Option<f64>,
    /// The processor time of this process, in percent of one processor, if it was measured.
    pub processor_percent: Option<f64>,
}

impl Sample {
    /// Adds what the store has counted in `span`.
    pub(crate) fn counting(mut self, counted: Option<u64>, span: Duration) -> Self {
        self.counted_per_operation = counted.map(|count| count as f64 / self.count as f64);
        self.counted_per_second = counted.map(|count| count as f64 / span.as_secs_f64());
        self
    }

    /// The sample of so many renewals in `span`. Its "times" are the processor time per second.
    pub(crate) fn of_held(
        renewals: f64,
        used: Duration,
        counted: Option<u64>,
        span: Duration,
    ) -> Self {
        let part = used.as_secs_f64() / span.as_secs_f64();
        let sample = Self {
            count: renewals as u64,
            per_second: renewals / span.as_secs_f64(),
            p50_us: part * 1e6,
            p99_us: part * 1e6,
            quantiles_us: [part * 1e6; 5],
            counted_per_operation: None,
            counted_per_second: None,
            processor_percent: Some(part * 100.0),
        };
        Self { counted_per_operation: None, ..sample.counting(counted, span) }
    }
}

/// The parts of the operations that took at most [`Sample::quantiles_us`].
pub const QUANTILES: [f64; 5] = [0.1, 0.5, 0.9, 0.99, 0.999];

/// Longer times count as this one.
const LONGEST: Duration = Duration::from_secs(120);

/// Times of single operations, in nanoseconds, with a precision of three digits.
pub(crate) struct Times(Histogram<u64>);

impl Times {
    pub(crate) fn new() -> Self {
        let times = Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, 3);
        Self(times.unwrap_or_else(|_| unreachable!("these bounds are allowed")))
    }

    pub(crate) fn add(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
    }

    pub(crate) fn join(&mut self, other: &Self) {
        let _ = self.0.add(&other.0);
    }

    /// The sample of these times within `span`; `None` if there are none.
    pub(crate) fn sample(&self, span: Duration) -> Option<Sample> {
        let micros = |quantile| self.0.value_at_quantile(quantile) as f64 / 1_000.0;
        (!self.0.is_empty()).then(|| Sample {
            count: self.0.len(),
            per_second: self.0.len() as f64 / span.as_secs_f64(),
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            quantiles_us: QUANTILES.map(micros),
            counted_per_operation: None,
            counted_per_second: None,
            processor_percent: None,
        })
    }
}

/// The samples of one store, by measurement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(BTreeMap<Measure, Vec<Sample>>);

impl Samples {
    pub(crate) fn add(&mut self, measure: Measure, sample: Sample) {
        self.0.entry(measure).or_default().push(sample);
    }

    pub(crate) fn of(&self, measure: Measure) -> &[Sample] {
        self.0.get(&measure).map_or(&[], Vec::as_slice)
    }
}

/// The median and the spread: the difference of the quartiles divided by the median.
pub(crate) fn median_and_spread(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_unstable_by(f64::total_cmp);
    let at = |part: usize| values.get((values.len().saturating_sub(1) * part + 2) / 4).copied();
    let (low, middle, high) = (at(1)?, at(2)?, at(3)?);
    let spread = if middle > 0.0 { (high - low) / middle } else { 0.0 };
    Some((middle, spread))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_and_the_spread_its_quartiles() {
        assert_eq!(median_and_spread(vec![]), None);
        assert_eq!(median_and_spread(vec![7.0]), Some((7.0, 0.0)));
        assert_eq!(median_and_spread(vec![5.0, 1.0, 4.0, 2.0, 3.0]), Some((3.0, 2.0 / 3.0)));
    }

    #[test]
    fn times_come_to_rates_and_quantiles() {
        let mut times = Times::new();
        assert!(times.sample(Duration::from_secs(1)).is_none());
        (1..=100).for_each(|each| times.add(Duration::from_micros(each)));
        let sample = times.sample(Duration::from_secs(2)).unwrap_or_else(|| unreachable!());
        assert_eq!((sample.count, sample.per_second), (100, 50.0));
        assert!((sample.p50_us - 50.0).abs() < 0.1 && (sample.p99_us - 99.0).abs() < 0.1);
    }
}
