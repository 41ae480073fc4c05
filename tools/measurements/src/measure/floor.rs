//! Measures the floors: the store through its own client.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::{
    measurement::MANY,
    sample::{Sample, Times},
    store::Subject,
};

pub(super) async fn ping(subject: &Subject, slice: Duration) -> Option<Sample> {
    let floor = subject.floor.as_deref()?;
    times(slice, async || floor.ping().await.ok()).await
}

pub(super) async fn write(subject: &Subject, slice: Duration) -> Option<Sample> {
    let floor = subject.floor.as_deref()?;
    times(slice, async || floor.write().await.ok()).await
}

pub(super) async fn pair(subject: &Subject, slice: Duration) -> Option<Sample> {
    let floor = subject.floor.as_deref()?;
    times(slice, async || floor.pair(0).await.ok()).await
}

pub(super) async fn pairs(subject: &Arc<Subject>, slice: Duration) -> Option<Sample> {
    let (began, mut tasks) = (Instant::now(), JoinSet::new());
    for task in 0..MANY {
        let subject = Arc::clone(subject);
        tasks.spawn(async move {
            let (mut times, floor) = (Times::new(), subject.floor.as_deref()?);
            loop {
                let asked = Instant::now();
                floor.pair_of_many(task).await.ok()?;
                times.add(asked.elapsed());
                if began.elapsed() >= slice {
                    return Some(times);
                }
            }
        });
    }
    let mut all = Times::new();
    while let Some(times) = tasks.join_next().await {
        all.join(&times.ok()??);
    }
    all.sample(began.elapsed())
}

/// Makes calls one after the other. If a call fails, there is no figure.
async fn times<Fut>(slice: Duration, once: impl Fn() -> Fut) -> Option<Sample>
where
    Fut: Future<Output = Option<()>>,
{
    let (mut times, began) = (Times::new(), Instant::now());
    loop {
        let asked = Instant::now();
        once().await?;
        times.add(asked.elapsed());
        if began.elapsed() >= slice {
            return times.sample(began.elapsed());
        }
    }
}
