//! From a release to the next holder.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;
use lock_core::{Error, ErrorKind, LockClient, LockName};

use crate::{
    sample::{Sample, Times},
    store::Subject,
};

/// When the last holder began to release, and what was measured so far. Only holders touch it.
struct Relay {
    released: Option<Instant>,
    times: Times,
}

/// A holder and so many waiting tasks, spread over the clients, hand one name around.
pub(super) async fn measure(
    subject: &Arc<Subject>,
    slice: Duration,
    waiting: usize,
) -> Result<Option<Sample>, Error> {
    let began = Instant::now();
    let relay = Arc::new(Mutex::new(Relay { released: None, times: Times::new() }));
    let name = subject.name("handed on");
    let runners = (0..=waiting).map(|runner| {
        let client = subject.clients[runner % subject.clients.len()].clone();
        let (name, relay) = (name.clone(), Arc::clone(&relay));
        async move {
            let part = tokio::spawn(run(client, name, relay, began + slice)).await;
            part.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
        }
    });
    try_join_all(runners).await?;
    let relay = relay.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(relay.times.sample(began.elapsed()))
}

async fn run(
    client: LockClient,
    name: LockName,
    relay: Arc<Mutex<Relay>>,
    end: Instant,
) -> Result<(), Error> {
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
        let acquired = Instant::now();
        {
            let mut relay = relay.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(released) = relay.released.take().filter(|_| acquired < end) {
                relay.times.add(acquired.saturating_duration_since(released));
            }
            relay.released = Some(Instant::now());
        }
        guard.release().await?;
    }
}
