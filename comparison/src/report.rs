//! What a run came to: data, from which the table and the page are made.

use std::sync::Arc;

use lock_core::Guarantees;
use serde::Serialize;

use crate::{
    Measure, Plan,
    sample::{Sample, Samples, median_and_spread},
    store::Subject,
};

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Of leasehold.
    pub version: &'static str,
    /// Processors that this machine lets us use.
    pub processors: usize,
    /// Seconds that the run was to take.
    pub seconds: f64,
    /// In the order in which they were named.
    pub stores: Vec<StoreReport>,
}

/// What was measured of one store.
#[derive(Clone, Debug, Serialize)]
pub struct StoreReport {
    /// What it is called.
    pub name: String,
    /// Where it is, without secrets.
    pub url: String,
    /// What it promises, in its present configuration.
    pub guarantees: Arc<Guarantees>,
    /// Why there are no floors, if so.
    pub no_floor: Option<String>,
    /// What was measured, in the order of [`Measure::ALL`].
    pub figures: Vec<Figure>,
}

/// One measurement of one store, over all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What was measured.
    pub measure: Measure,
    /// Medians over the rounds.
    pub median: Sample,
    /// How far the rounds lie apart: the difference of the quartiles of `p50_us` over its median.
    pub spread: f64,
    /// The median time over that of the store's cheapest write, where both were measured.
    pub times_the_write: Option<f64>,
}

impl Report {
    pub(crate) fn new(subjects: &[Arc<Subject>], plan: &Plan, samples: Vec<Samples>) -> Self {
        let stores = subjects.iter().zip(samples);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            seconds: plan.span().as_secs_f64(),
            stores: stores.map(|(subject, samples)| StoreReport::new(subject, &samples)).collect(),
        }
    }
}

impl StoreReport {
    fn new(subject: &Subject, samples: &Samples) -> Self {
        let write = median(samples.of(Measure::Write)).map(|(write, _)| write.p50_us);
        let figure = |measure: Measure| {
            let (median, spread) = median(samples.of(measure))?;
            let over = write.filter(|write| *write > 0.0 && !measure.is_floor());
            let times_the_write = over.map(|write| median.p50_us / write);
            Some(Figure { measure, median, spread, times_the_write })
        };
        Self {
            name: subject.store.name.clone(),
            url: subject.store.url.to_string(),
            guarantees: subject.backend().guarantees(),
            no_floor: subject.no_floor.clone(),
            figures: Measure::ALL.into_iter().filter_map(figure).collect(),
        }
    }

    /// One of its figures.
    #[must_use]
    pub fn figure(&self, measure: Measure) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.measure == measure)
    }
}

/// The median of each value over the rounds, and the spread of the first.
fn median(samples: &[Sample]) -> Option<(Sample, f64)> {
    let of = |value: fn(&Sample) -> f64| median_and_spread(samples.iter().map(value).collect());
    let (p50_us, spread) = of(|sample| sample.p50_us)?;
    let (p99_us, _) = of(|sample| sample.p99_us)?;
    let (per_second, _) = of(|sample| sample.per_second)?;
    let mut quantiles_us = [0.0; 5];
    for (at, value) in quantiles_us.iter_mut().enumerate() {
        let each = samples.iter().map(|sample| sample.quantiles_us[at]);
        (*value, _) = median_and_spread(each.collect())?;
    }
    let count = samples.iter().map(|sample| sample.count).sum();
    Some((Sample { count, per_second, p50_us, p99_us, quantiles_us }, spread))
}
