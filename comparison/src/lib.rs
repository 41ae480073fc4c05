//! Measures lock stores side by side, for people who are deciding between them.
//!
//! All stores are measured in one run, in turns: each round makes every measurement on every store, in
//! an order that rotates, so that what else the machine does falls on all alike. The first round warms
//! up and is thrown away. Every figure stands beside the *floors* of the same store in the same run:
//! its cheapest round trip and its cheapest write, made by the store's own client without leasehold.

mod floor;
mod measure;
mod page;
mod plan;
mod plots;
mod report;
mod sample;
mod store;
mod table;

use std::sync::Arc;

use lock_core::{Error, ErrorKind};

pub use self::{
    measure::Measure,
    plan::Plan,
    report::{Figure, Report, StoreReport},
    sample::{QUANTILES, Sample},
    store::{Store, embedded},
};
use self::{sample::Samples, store::Subject};

/// Told of each measurement before it begins: how many are done, of how many, and what is next.
pub trait Watch {
    /// The next one begins.
    fn next(&mut self, done: usize, of: usize, store: &str, measure: &str);
}

impl Watch for () {
    fn next(&mut self, _: usize, _: usize, _: &str, _: &str) {}
}

/// Compares the stores. Bounded in time by the plan, and in load by a number of tasks and names that
/// does not depend on the stores.
///
/// # Errors
/// `InvalidInput` for no store, one that is named twice, or one in which locks are held: a store in use
/// is not to be loaded. Otherwise as the stores' own; nothing is left held in any of them.
///
/// *Cancel safety*: what is held when the future is dropped is given back in the background.
pub async fn compare(
    stores: Vec<Store>,
    plan: Plan,
    watch: &mut dyn Watch,
) -> Result<Report, Error> {
    if stores.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "no store is named; allowed is one or more",
        ));
    }
    let mut subjects = Vec::new();
    for store in stores {
        let twice = subjects.iter().any(|other: &Arc<Subject>| other.store.url == store.url);
        if twice {
            let message = format!("{} is named twice; allowed is once", store.url);
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        subjects.push(Arc::new(Subject::open(store).await?));
    }
    let measured = run(&subjects, &plan, watch).await;
    for subject in &subjects {
        subject.close().await;
    }
    Ok(Report::new(&subjects, &plan, measured?))
}

async fn run(
    subjects: &[Arc<Subject>],
    plan: &Plan,
    watch: &mut dyn Watch,
) -> Result<Vec<Samples>, Error> {
    let mut samples = vec![Samples::default(); subjects.len()];
    let slice = plan.slice(subjects.len());
    let (of, mut done) = (plan.count(subjects.len()), 0);
    for round in 0..plan.rounds() {
        let made = |each: &Measure| plan.makes(*each, round, subjects.len());
        for measure in Measure::ALL.into_iter().filter(made) {
            for turn in 0..subjects.len() {
                let at = (turn + round) % subjects.len();
                watch.next(done, of, &subjects[at].store.name, measure.title());
                done += 1;
                let sample = measure.make(&subjects[at], slice).await?;
                if let Some(sample) = sample.filter(|_| round > 0) {
                    samples[at].add(measure, sample);
                }
            }
        }
    }
    Ok(samples)
}
