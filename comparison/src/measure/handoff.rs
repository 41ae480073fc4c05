//! From a release to the next holder.

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

/// Who held last, when that one began to release, and what was measured so far. Only holders touch
/// it. A task that takes its own lock again hands nothing over, and is not counted.
struct Relay {
    last: Option<(usize, Instant)>,
    times: Times,
    /// What is between them counts: not while runners still come, and not while they leave.
    counts: (Instant, Instant),
}

/// The part of a slice in which runners come.
const COMING: u32 = 4;

impl Relay {
    fn new(slice: Duration) -> Arc<Mutex<Self>> {
        let now = Instant::now();
        let counts = (now + slice / COMING, now + slice);
        Arc::new(Mutex::new(Self { last: None, times: Times::new(), counts }))
    }

    /// A runner holds the lock now.
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

    /// It begins to release it.
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

/// A holder and so many waiting tasks, spread over the clients, hand one name around.
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
        // A store that answers at once would never let the others ask.
        tokio::task::yield_now().await;
        Relay::releasing(&relay, runner);
        guard.release().await?;
    }
}
