//! Calls one after the other, and by many tasks at once.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use tokio::task::JoinSet;

/// Something to be measured, called with the number of a task.
pub type Call = Arc<dyn Fn(usize) -> BoxFuture<'static, ()> + Send + Sync>;

/// A call of a function.
pub fn call<F>(call: impl Fn(usize) -> F + Send + Sync + 'static) -> Call
where
    F: Future<Output = ()> + Send + 'static,
{
    Arc::new(move |task| Box::pin(call(task)))
}

/// What was seen of one contender in one round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// How many operations ended.
    pub count: usize,
    /// Per second.
    pub per_second: f64,
    /// Half of them took at most this long, in µs.
    pub p50: f64,
    /// 99 of 100 took at most this long, in µs.
    pub p99: f64,
}

impl Seen {
    pub(crate) fn new(mut took: Vec<Duration>, span: Duration) -> Self {
        let per_second = took.len() as f64 / span.as_secs_f64();
        let [p50, p99] = [0.5, 0.99].map(|part| quantile(&mut took, part));
        Self { count: took.len(), per_second, p50, p99 }
    }
}

/// The value below which `part` of the spans lie, in µs; 0 of none.
pub fn quantile(spans: &mut [Duration], part: f64) -> f64 {
    spans.sort_unstable();
    let at = (spans.len().saturating_sub(1) as f64 * part).round() as usize;
    spans.get(at).map_or(0.0, |span| span.as_secs_f64() * 1e6)
}

/// Calls one after the other, as long as `span` has not passed.
pub async fn one_by_one(call: &Call, span: Duration) -> Seen {
    let (mut took, began) = (Vec::new(), Instant::now());
    while began.elapsed() < span {
        let start = Instant::now();
        call(0).await;
        took.push(start.elapsed());
    }
    Seen::new(took, began.elapsed())
}

/// The same by so many tasks at once.
pub async fn many(call: &Call, tasks: usize, span: Duration) -> Seen {
    let (mut running, began) = (JoinSet::new(), Instant::now());
    for task in 0..tasks {
        let call = Arc::clone(call);
        running.spawn(async move {
            let mut took = Vec::new();
            while began.elapsed() < span {
                let start = Instant::now();
                call(task).await;
                took.push(start.elapsed());
            }
            took
        });
    }
    let took = running.join_all().await.concat();
    Seen::new(took, began.elapsed())
}
