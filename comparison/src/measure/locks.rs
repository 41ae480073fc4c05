//! Acquire and release without contention.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::try_join_all;
use lock_core::{Error, LockClient, LockName};

use crate::{
    sample::{Sample, Times},
    store::Subject,
};

/// So many tasks, each on a name of its own, spread over the clients.
pub(super) async fn measure(
    subject: &Arc<Subject>,
    slice: Duration,
    tasks: usize,
) -> Result<Option<Sample>, Error> {
    let began = Instant::now();
    let parts = (0..tasks).map(|task| {
        let client = subject.clients[task % subject.clients.len()].clone();
        let name = subject.name(format_args!("own {task}"));
        async move {
            let part = tokio::spawn(pairs(client, name, began + slice)).await;
            part.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
        }
    });
    let mut all = Times::new();
    for times in try_join_all(parts).await? {
        all.join(&times);
    }
    Ok(all.sample(began.elapsed()))
}

async fn pairs(client: LockClient, name: LockName, end: Instant) -> Result<Times, Error> {
    let mut times = Times::new();
    while Instant::now() < end {
        let asked = Instant::now();
        client.lock(&name).acquire().await?.release().await?;
        times.add(asked.elapsed());
    }
    Ok(times)
}
