//! The store by its own client.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use crate::{
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

/// One after the other. A floor that fails has no figure.
async fn times<Fut>(slice: Duration, once: impl Fn() -> Fut) -> Option<Sample>
where
    Fut: Future<Output = Option<()>>,
{
    let (mut times, began) = (Times::new(), Instant::now());
    while began.elapsed() < slice {
        let asked = Instant::now();
        once().await?;
        times.add(asked.elapsed());
    }
    times.sample(began.elapsed())
}
