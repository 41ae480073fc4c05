//! A run: lost holders once; rounds of all other measurements on all stores; lost holders again;
//! held locks.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use lock_core::Error;

use crate::{
    measure::{Ends, Held, Holder, Step},
    measurement::Measure,
    plan::{Course, Plan},
    sample::{Sample, Samples},
    store::Subject,
};

/// Shows the progress of a run.
pub trait Watch {
    /// Called before each measurement, with the time that has passed, the time of the whole run,
    /// and what is measured next.
    fn next(&mut self, elapsed: Duration, of: Duration, store: &str, measure: &str);
}

impl Watch for () {
    fn next(&mut self, _: Duration, _: Duration, _: &str, _: &str) {}
}

/// The samples of one store, and why there are none of some measurements.
#[derive(Debug, Default)]
pub(crate) struct OfStore {
    pub(crate) samples: Samples,
    pub(crate) missing: BTreeMap<Measure, String>,
    /// The first error of the store.
    failed: Option<Error>,
}

impl OfStore {
    /// Adds the result of a step. In the round that warms up, `counts` is false. A store may fail
    /// under one load and not under another; its other figures stay.
    fn add(&mut self, step: Step, counts: bool, made: Result<Vec<(Measure, Sample)>, Error>) {
        match made {
            Ok(made) if counts => {
                made.into_iter().for_each(|(measure, sample)| self.samples.add(measure, sample));
            }
            Ok(_) => {}
            Err(error) => {
                for measure in step.measures() {
                    self.missing.insert(measure, error.to_string());
                }
                self.failed.get_or_insert(error);
            }
        }
    }
}

/// The samples of all stores.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) stores: Vec<OfStore>,
    pub(crate) took: Duration,
}

const NO_TIME: &str = "there was no time for it; use a longer --for";

pub(crate) async fn run(
    subjects: &[Arc<Subject>],
    holder: Option<&Holder>,
    plan: Plan,
    watch: &mut dyn Watch,
) -> Result<Measured, Error> {
    let mut course = plan.starts();
    let mut all = Measured {
        stores: subjects.iter().map(|_| OfStore::default()).collect(),
        took: Duration::ZERO,
    };
    let (ends, mut made) = (Ends { holder }, 0);
    if course.has_ends() {
        ending(subjects, &ends, &course, watch, &mut all.stores).await;
        made += 1;
    }
    rounds(subjects, plan, &course, watch, &mut all).await?;
    while course.another_end(made) {
        ending(subjects, &ends, &course, watch, &mut all.stores).await;
        made += 1;
    }
    if made == 0 {
        for store in &mut all.stores {
            for measure in Measure::ALL.into_iter().filter(|measure| measure.is_once()) {
                store.missing.insert(measure, NO_TIME.to_owned());
            }
        }
    }
    held(subjects, &course, watch, &mut all.stores).await;
    all.took = course.elapsed();
    Ok(all)
}

async fn rounds(
    subjects: &[Arc<Subject>],
    plan: Plan,
    course: &Course,
    watch: &mut dyn Watch,
    all: &mut Measured,
) -> Result<(), Error> {
    let unit = plan.slice(subjects.len());
    let mut round = 0;
    while course.another_round(round) {
        for step in Step::ALL {
            let slice = unit.mul_f64(step.weight());
            for turn in 0..subjects.len() {
                let at = (turn + round) % subjects.len();
                let subject = &subjects[at];
                watch.next(course.elapsed(), course.span, &subject.store.name, step.title());
                all.stores[at].add(step, round > 0, step.make(subject, slice).await);
            }
        }
        round += 1;
    }
    // A store that never granted a lock cannot be compared.
    let none = |store: &&mut OfStore| store.samples.of(Measure::Uncontended).is_empty();
    let failed = all.stores.iter_mut().filter(none).find_map(|store| store.failed.take());
    failed.map_or(Ok(()), Err)
}

/// Measures lost holders in all stores at the same time, since this mostly waits for leases.
async fn ending(
    subjects: &[Arc<Subject>],
    ends: &Ends<'_>,
    course: &Course,
    watch: &mut dyn Watch,
    all: &mut [OfStore],
) {
    watch.next(course.elapsed(), course.span, "all", "holders that die or are cut off");
    let round = join_all(subjects.iter().map(|subject| ends.measure(subject))).await;
    for (store, made) in all.iter_mut().zip(round) {
        for (measure, made) in made {
            match made {
                Ok(sample) => store.samples.add(measure, sample),
                Err(why) => drop(store.missing.insert(measure, why)),
            }
        }
    }
}

async fn held(
    subjects: &[Arc<Subject>],
    course: &Course,
    watch: &mut dyn Watch,
    all: &mut [OfStore],
) {
    for held in Held::ALL {
        for (subject, store) in subjects.iter().zip(all.iter_mut()) {
            let rates = store.samples.of(Measure::ManyNames).iter().map(|it| it.per_second);
            let slowest = rates.fold(f64::MAX, f64::min);
            if !course.has(held.takes(slowest)) {
                store.missing.insert(held.measure, NO_TIME.to_owned());
                continue;
            }
            let title = held.measure.title();
            watch.next(course.elapsed(), course.span, &subject.store.name, title);
            match held.measure(subject).await {
                Ok(Some(sample)) => store.samples.add(held.measure, sample),
                Err(error) => drop(store.missing.insert(held.measure, error.to_string())),
                Ok(None) => {
                    let why = "not all of them could be kept with a lease of 6 s".to_owned();
                    store.missing.insert(held.measure, why);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;

    use super::*;
    use crate::sample::Times;

    #[test]
    fn a_step_that_fails_is_missing_and_leaves_the_other_figures() {
        let mut store = OfStore::default();
        let mut times = Times::new();
        times.add(Duration::from_micros(1));
        let sample = times.sample(Duration::from_secs(1)).unwrap_or_else(|| unreachable!());
        store.add(Step::Locks(1), true, Ok(vec![(Measure::Uncontended, sample)]));
        let error = Error::new(ErrorKind::Unavailable, "2 of 5 nodes could vote");
        store.add(Step::Handoff(256, Measure::Handoff256), true, Err(error));
        assert_eq!(
            store.missing[&Measure::Handoff256],
            "store unavailable: 2 of 5 nodes could vote"
        );
        assert_eq!(store.samples.of(Measure::Uncontended).len(), 1);
        assert!(store.failed.is_some());
    }
}
