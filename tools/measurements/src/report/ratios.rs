//! The cost of leasehold compared with the floors of the same store in the same run, and the
//! targets of this project.

use serde::Serialize;

use super::figures::{Figure, StoreReport};
use crate::measurement::Measure;

/// A figure of leasehold, divided by a floor.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Ratio {
    /// The store.
    pub store: String,
    /// What was measured.
    pub what: String,
    /// Leasehold's figure, in `unit`.
    pub figure: f64,
    /// The floor, in words.
    pub floor: String,
    /// The figure of the floor, in `unit`.
    pub floor_figure: f64,
    /// The unit of both figures.
    pub unit: &'static str,
    /// Leasehold's figure divided by that of the floor.
    pub ratio: f64,
    /// The target of this project, if there is one.
    pub target: Option<Target>,
    /// Whether this run meets the target.
    pub met: Option<bool>,
}

/// The target for a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Target {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

impl Ratio {
    fn new(
        store: impl Into<String>,
        what: impl Into<String>,
        floor: impl Into<String>,
        unit: &'static str,
    ) -> Self {
        let (store, what, floor) = (store.into(), what.into(), floor.into());
        let (figure, floor_figure, ratio) = (f64::NAN, f64::NAN, f64::NAN);
        Self { store, what, figure, floor, floor_figure, unit, ratio, target: None, met: None }
    }

    /// Sets the target (default: none).
    fn wanted(mut self, target: Option<Target>) -> Self {
        self.target = target;
        self
    }

    /// Sets leasehold's figure and that of the floor.
    fn of(mut self, figure: f64, floor_figure: f64) -> Self {
        (self.figure, self.floor_figure) = (figure, floor_figure);
        self.ratio = figure / floor_figure;
        self.met = self.target.map(|target| target.is_met(self.ratio));
        self
    }
}

use Target::{AtLeast, AtMost};

/// Whether a ratio is of times or of rates.
#[derive(Clone, Copy)]
enum Of {
    Time,
    Rate,
}

impl Of {
    fn figure(self, figure: &Figure) -> f64 {
        match self {
            Self::Time => figure.median.p50_us,
            Self::Rate => figure.median.per_second,
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Time => "µs, median",
            Self::Rate => "per second",
        }
    }
}

/// The scheme, the measurement, the floor, times or rates, and the target.
type Row = (&'static str, Measure, Measure, Of, Option<Target>);

const FLOORS: [Row; 10] = [
    ("memory", Measure::Uncontended, Measure::Pair, Of::Time, None),
    ("sqlite", Measure::Uncontended, Measure::Pair, Of::Rate, Some(AtLeast(0.7))),
    ("redis", Measure::Uncontended, Measure::Pair, Of::Time, Some(AtMost(1.2))),
    ("redis", Measure::ManyNames, Measure::Pairs, Of::Rate, Some(AtLeast(0.9))),
    ("redis", Measure::Handoff16, Measure::Ping, Of::Time, None),
    ("redlock", Measure::Uncontended, Measure::Pair, Of::Time, Some(AtMost(1.4))),
    ("etcd", Measure::Acquire, Measure::Write, Of::Time, Some(AtMost(1.3))),
    ("etcd", Measure::Uncontended, Measure::Pair, Of::Time, Some(AtMost(1.15))),
    ("postgres", Measure::Uncontended, Measure::Pair, Of::Rate, Some(AtLeast(0.85))),
    ("mysql", Measure::Uncontended, Measure::Pair, Of::Rate, Some(AtLeast(0.85))),
];

pub(crate) fn ratios(stores: &[StoreReport]) -> Vec<Ratio> {
    let mut all = Vec::new();
    for store in stores {
        let scheme = store.url.split(':').next().unwrap_or_default();
        for (_, ours, floor, of, target) in FLOORS.into_iter().filter(|row| row.0 == scheme) {
            if let (Some(figure), Some(other)) = (store.figure(ours), store.figure(floor)) {
                let name = match (floor, store.bare) {
                    (Measure::Pair, Some([bare, _])) | (Measure::Pairs, Some([_, bare])) => bare,
                    _ => floor.title(),
                };
                all.push(ratio(store, ours, of, figure, (name.to_owned(), other), target));
            }
        }
        all.extend(commands(store, scheme));
    }
    all
}

fn ratio(
    store: &StoreReport,
    measure: Measure,
    of: Of,
    figure: &Figure,
    (floor, other): (String, &Figure),
    target: Option<Target>,
) -> Ratio {
    let ratio = Ratio::new(&store.name, measure.title(), floor, of.unit());
    ratio.wanted(target).of(of.figure(figure), of.figure(other))
}

/// What the store counts per handoff, such as scripts. One is the least possible.
fn commands(store: &StoreReport, scheme: &str) -> Option<Ratio> {
    let figure = store.figure(Measure::Handoff16)?.median.counted_per_operation?;
    let target = (scheme == "redis").then_some(AtMost(3.0));
    let what = format!("{} per handoff, 16 waiting", store.counts?);
    Some(Ratio::new(&store.name, what, "one", "per handoff").wanted(target).of(figure, 1.0))
}

impl Target {
    fn is_met(self, ratio: f64) -> bool {
        match self {
            AtMost(most) => ratio <= most,
            AtLeast(least) => ratio >= least,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AtMost(most) => write!(f, "at most {most}"),
            AtLeast(least) => write!(f, "at least {least}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_at_its_bound() {
        assert!(AtMost(1.2).is_met(1.2) && !AtMost(1.2).is_met(1.21));
        assert!(AtLeast(0.9).is_met(0.9) && !AtLeast(0.9).is_met(0.89));
        assert_eq!(AtLeast(0.85).to_string(), "at least 0.85");
    }
}
