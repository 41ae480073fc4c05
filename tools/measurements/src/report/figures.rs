//! The figures of each store over all rounds.

use std::sync::Arc;

use lock_core::Guarantees;
use serde::Serialize;

use crate::{
    floor::Setting,
    measurement::Measure,
    run::OfStore,
    sample::{Sample, Samples, median_and_spread},
    store::Subject,
};

/// The figures of one store.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StoreReport {
    /// Its name in the report.
    pub name: String,
    /// Its URL, without secrets.
    pub url: String,
    /// Its versions and settings, as the store reports them.
    pub settings: Vec<Setting>,
    /// What it promises in its present configuration.
    pub guarantees: Arc<Guarantees>,
    /// Why there are no floors, if so.
    pub no_floor: Option<String>,
    /// What the store counts, such as scripts or statements, if it does.
    pub counts: Option<&'static str>,
    /// The bare lock of its floors in words: for one task, and for many tasks.
    pub bare: Option<[&'static str; 2]>,
    /// The figures, in the order of [`Measure::ALL`].
    pub figures: Vec<Figure>,
    /// The measurements without a figure.
    pub missing: Vec<Missing>,
}

/// One measurement of one store, over all rounds.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Figure {
    /// What was measured.
    pub measure: Measure,
    /// Medians over the rounds.
    pub median: Sample,
    /// The figure of each round: operations per second for [`Measure::by_rate`], otherwise the
    /// median time in microseconds.
    pub rounds: Vec<f64>,
    /// How far the rounds differ: the difference of their quartiles, divided by their median.
    pub spread: f64,
    /// The median time, divided by that of the store's cheapest write, if both were measured.
    pub times_the_write: Option<f64>,
}

/// A measurement without a figure.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Missing {
    /// The measurement.
    pub measure: Measure,
    /// Why there is no figure.
    pub why: String,
}

impl StoreReport {
    pub(super) fn new(subject: &Subject, measured: OfStore) -> Self {
        let OfStore { samples, mut missing, .. } = measured;
        let figures = figures(&samples);
        let unmeasured = |measure: &Measure| figures.iter().all(|it| it.measure != *measure);
        let mut missed = Vec::new();
        for measure in Measure::ALL.into_iter().filter(unmeasured) {
            let why = missing.remove(&measure).unwrap_or_else(|| match measure.is_floor() {
                true => "the store's own client failed".to_owned(),
                false => "no operation ended in time".to_owned(),
            });
            missed.push(Missing { measure, why });
        }
        let floor = subject.floor.as_deref();
        Self {
            name: subject.store.name.clone(),
            url: subject.store.url.to_string(),
            settings: subject.settings.clone(),
            guarantees: subject.backend().guarantees(),
            no_floor: subject.no_floor.clone(),
            counts: floor.and_then(|floor| floor.counts()),
            bare: floor.map(|floor| [floor.pair_is(), floor.pair_of_many_is()]),
            figures,
            missing: missed,
        }
    }

    /// The figure of a measurement.
    #[must_use]
    pub fn figure(&self, measure: Measure) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.measure == measure)
    }
}

fn figures(samples: &Samples) -> Vec<Figure> {
    let write = median(samples.of(Measure::Write)).map(|write| write.p50_us);
    let figure = |measure: Measure| {
        let samples = samples.of(measure);
        let median = median(samples)?;
        let value = |it: &Sample| if measure.by_rate() { it.per_second } else { it.p50_us };
        let rounds: Vec<_> = samples.iter().map(value).collect();
        let (_, spread) = median_and_spread(rounds.clone())?;
        let beside = !measure.is_floor() && !measure.is_once() && !measure.is_held();
        let write = write.filter(|write| *write > 0.0 && beside);
        let times_the_write = write.map(|write| median.p50_us / write);
        Some(Figure { measure, median, rounds, spread, times_the_write })
    };
    Measure::ALL.into_iter().filter_map(figure).collect()
}

/// The median of each value over the rounds.
fn median(samples: &[Sample]) -> Option<Sample> {
    let of = |value: &dyn Fn(&Sample) -> f64| {
        median_and_spread(samples.iter().map(value).collect()).map(|(median, _)| median)
    };
    let known = |value: fn(&Sample) -> Option<f64>| {
        let values: Vec<_> = samples.iter().filter_map(value).collect();
        median_and_spread(values).map(|(median, _)| median)
    };
    let mut quantiles_us = [0.0; 5];
    for (at, value) in quantiles_us.iter_mut().enumerate() {
        *value = of(&|sample| sample.quantiles_us[at])?;
    }
    Some(Sample {
        count: samples.iter().map(|sample| sample.count).sum(),
        per_second: of(&|sample| sample.per_second)?,
        p50_us: of(&|sample| sample.p50_us)?,
        p99_us: of(&|sample| sample.p99_us)?,
        quantiles_us,
        counted_per_operation: known(|sample| sample.counted_per_operation),
        counted_per_second: known(|sample| sample.counted_per_second),
        processor_percent: known(|sample| sample.processor_percent),
    })
}
