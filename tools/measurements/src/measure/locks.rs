//! Measures acquire and release without contention.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lock_core::{Error, LockClient, LockName};
use tokio::task::JoinSet;

use crate::{
    measurement::Measure,
    sample::{Sample, Times},
    store::{Subject, finished},
};

/// The times of one task: of its acquires, and of its pairs of acquire and release.
type Took = (Times, Times);

/// Lets `tasks` tasks, shared out among the clients, acquire and release, each on a name of its
/// own.
pub(super) async fn measure(
    subject: &Arc<Subject>,
    slice: Duration,
    tasks: usize,
) -> Result<Vec<(Measure, Sample)>, Error> {
    let (before, began) = (subject.count().await, Instant::now());
    let mut parts = JoinSet::new();
    for task in 0..tasks {
        let client = subject.clients[task % subject.clients.len()].clone();
        parts.spawn(pairs(client, subject.name(format_args!("own {task}")), began + slice));
    }
    let (mut acquires, mut all) = (Times::new(), Times::new());
    for (acquired, pairs) in finished(parts).await? {
        acquires.join(&acquired);
        all.join(&pairs);
    }
    let span = began.elapsed();
    let counted = subject.counted_since(before).await;
    let acquire = acquires.sample(span).filter(|_| tasks == 1);
    let pair = all.sample(span).map(|sample| sample.counting(counted, span));
    let of_pair = if tasks == 1 { Measure::Uncontended } else { Measure::ManyNames };
    let acquire = acquire.map(|sample| (Measure::Acquire, sample));
    Ok(acquire.into_iter().chain(pair.map(|sample| (of_pair, sample))).collect())
}

async fn pairs(client: LockClient, name: LockName, end: Instant) -> Result<Took, Error> {
    let (mut acquires, mut pairs) = (Times::new(), Times::new());
    // At least once, also on a busy machine.
    loop {
        let asked = Instant::now();
        let guard = client.lock(&name).acquire().await?;
        acquires.add(asked.elapsed());
        guard.release().await?;
        pairs.add(asked.elapsed());
        if Instant::now() >= end {
            return Ok((acquires, pairs));
        }
    }
}
