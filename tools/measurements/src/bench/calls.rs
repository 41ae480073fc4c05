//! Calls that many tasks make at once, and statistics of their times.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use tokio::task::JoinSet;

/// An operation to be measured. The argument is the number of the task that makes the call.
pub type Call = Arc<dyn Fn(usize) -> BoxFuture<'static, ()> + Send + Sync>;

/// Makes a [`Call`] of a function.
pub fn call<F>(call: impl Fn(usize) -> F + Send + Sync + 'static) -> Call
where
    F: Future<Output = ()> + Send + 'static,
{
    Arc::new(move |task| Box::pin(call(task)))
}

/// What one contender did in one round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// How many operations ended.
    pub count: usize,
    /// Operations per second.
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

/// The value below which `part` of the spans lie, in µs; 0 for no spans.
pub fn quantile(spans: &mut [Duration], part: f64) -> f64 {
    spans.sort_unstable();
    let at = (spans.len().saturating_sub(1) as f64 * part).round() as usize;
    spans.get(at).map_or(0.0, |span| span.as_secs_f64() * 1e6)
}

/// The middle value; panics if there is none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Lets `tasks` tasks repeat the call until `span` has passed.
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
