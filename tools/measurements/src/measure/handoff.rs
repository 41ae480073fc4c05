//! Measures handoffs: the time from a release until the next task has the lock.

use std::{
    sync::{Arc, MutexGuard},
    time::{Duration, Instant},
};

use lock_core::{Error, ErrorKind, LockClient, LockName, Mutex};
use tokio::task::JoinSet;

use crate::{
    sample::{Sample, Times},
    store::{Subject, finished},
};

/// The last holder, when it began to release, and the times so far. Only the holder of the lock
/// changes it. If a task takes its own lock again, this is no handoff and does not count.
struct Relay {
    last: Option<(usize, Instant)>,
    times: Times,
    /// Only handoffs between these instants count: not those while runners still start, or already
    /// end.
    counts: (Instant, Instant),
}

/// The runners start in the first quarter of a slice.
const COMING: u32 = 4;

impl Relay {
    fn new(slice: Duration) -> Arc<Mutex<Self>> {
        let now = Instant::now();
        let counts = (now + slice / COMING, now + slice);
        Arc::new(Mutex::new(Self { last: None, times: Times::new(), counts }))
    }

    /// A runner has acquired the lock.
    fn taken(relay: &Mutex<Self>, runner: usize) {
        let acquired = Instant::now();
        let mut relay = Self::lock(relay);
        if let Some((last, released)) = relay.last
            && last != runner
            && released >= relay.counts.0
            && acquired < relay.counts.1
        {
            relay.times.add(acquired.saturating_duration_since(released));
        }
    }

    /// A runner begins to release the lock.
    fn releasing(relay: &Mutex<Self>, runner: usize) {
        Self::lock(relay).last = Some((runner, Instant::now()));
    }

    fn sample(relay: &Mutex<Self>) -> Option<Sample> {
        let relay = Self::lock(relay);
        relay.times.sample(relay.counts.1 - relay.counts.0)
    }

    fn lock(relay: &Mutex<Self>) -> MutexGuard<'_, Self> {
        relay.lock()
    }
}

/// Lets one holder and `waiting` waiting tasks, shared out among the clients, hand one lock over
/// again and again.
pub(super) async fn measure(
    subject: &Arc<Subject>,
    slice: Duration,
    waiting: usize,
) -> Result<Option<Sample>, Error> {
    let (relay, name) = (Relay::new(slice), subject.name("handed on"));
    let (from, to) = Relay::lock(&relay).counts;
    let mut runners = JoinSet::new();
    for runner in 0..=waiting {
        let client = subject.clients[runner % subject.clients.len()].clone();
        runners.spawn(run(client, name.clone(), Arc::clone(&relay), runner));
    }
    tokio::time::sleep_until(from.into()).await;
    let before = subject.count().await;
    tokio::time::sleep_until(to.into()).await;
    let counted = subject.counted_since(before).await;
    finished(runners).await?;
    Ok(Relay::sample(&relay).map(|sample| sample.counting(counted, to - from)))
}

async fn run(
    client: LockClient,
    name: LockName,
    relay: Arc<Mutex<Relay>>,
    runner: usize,
) -> Result<(), Error> {
    let (_, end) = Relay::lock(&relay).counts;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let guard = match client.lock(&name).wait(left).acquire().await {
            Err(error) if error.kind() == ErrorKind::Timeout && Instant::now() >= end => {
                return Ok(());
            }
            answer => answer?,
        };
        Relay::taken(&relay, runner);
        // If the store answers at once, the other tasks would never run.
        tokio::task::yield_now().await;
        Relay::releasing(&relay, runner);
        guard.release().await?;
    }
}
