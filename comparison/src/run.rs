//! A run: how holders end, once; rounds of everything on every store; ends again; held locks.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use lock_core::Error;

use crate::{
    Holder, Measure, Plan,
    measure::{Ends, Held, Step},
    peer::Peers,
    plan::Course,
    sample::Samples,
    store::Subject,
};

/// Told of each measurement before it begins: how long the run has taken, of how long, and what is
/// next.
pub trait Watch {
    /// The next one begins.
    fn next(&mut self, elapsed: Duration, of: Duration, store: &str, measure: &str);
}

impl Watch for () {
    fn next(&mut self, _: Duration, _: Duration, _: &str, _: &str) {}
}

/// What was measured of one store, and why something was not.
#[derive(Debug, Default)]
pub(crate) struct OfStore {
    pub(crate) samples: Samples,
    pub(crate) missing: BTreeMap<Measure, String>,
}

/// What was measured of a peer.
#[derive(Debug)]
pub(crate) struct OfPeer {
    pub(crate) name: String,
    pub(crate) store: String,
    pub(crate) samples: Samples,
}

/// What was measured.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) stores: Vec<OfStore>,
    pub(crate) peers: Vec<OfPeer>,
    pub(crate) took: Duration,
}

const NO_TIME: &str = "there was no time for it: a longer --for has it";

pub(crate) async fn run(
    subjects: &[Arc<Subject>],
    peers: &Peers,
    holder: Option<&Holder>,
    plan: Plan,
    watch: &mut dyn Watch,
) -> Result<Measured, Error> {
    let mut course = plan.starts();
    let of_peer = |name, store| OfPeer { name, store, samples: Samples::default() };
    let mut all = Measured {
        stores: subjects.iter().map(|_| OfStore::default()).collect(),
        peers: peers.iter().map(|peer| of_peer(peer.name(), peer.store())).collect(),
        took: Duration::ZERO,
    };
    let (ends, mut made) = (Ends { holder }, 0);
    if course.has_ends() {
        ending(subjects, &ends, &course, watch, &mut all.stores).await;
        made += 1;
    }
    rounds(subjects, peers, plan, &course, watch, &mut all).await?;
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
    held(subjects, &course, watch, &mut all.stores).await?;
    all.took = course.elapsed();
    Ok(all)
}

async fn rounds(
    subjects: &[Arc<Subject>],
    peers: &Peers,
    plan: Plan,
    course: &Course,
    watch: &mut dyn Watch,
    all: &mut Measured,
) -> Result<(), Error> {
    let (rounds, unit) = plan.rounds(subjects.len() + peers.len());
    let mut round = 0;
    while course.another_round(round, rounds) {
        for step in Step::ALL {
            let slice = unit.mul_f64(step.weight());
            for turn in 0..subjects.len() + peers.len() {
                let at = (turn + round) % (subjects.len() + peers.len());
                if let Some(peer) = at.checked_sub(subjects.len()) {
                    let sample = step.make_of_peer(&peers[peer], slice).await;
                    if let Some((measure, sample)) = sample.filter(|_| round > 0) {
                        all.peers[peer].samples.add(measure, sample);
                    }
                    continue;
                }
                let subject = &subjects[at];
                watch.next(course.elapsed(), course.span, &subject.store.name, step.title());
                for (measure, sample) in step.make(subject, slice).await? {
                    if round > 0 {
                        all.stores[at].samples.add(measure, sample);
                    }
                }
            }
        }
        round += 1;
    }
    Ok(())
}

/// Of all stores at once, since it is waiting for leases.
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
) -> Result<(), Error> {
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
            match held.measure(subject).await? {
                Some(sample) => store.samples.add(held.measure, sample),
                None => {
                    let why = "not all of them could be kept with a lease of 6 s".to_owned();
                    store.missing.insert(held.measure, why);
                }
            }
        }
    }
    Ok(())
}
