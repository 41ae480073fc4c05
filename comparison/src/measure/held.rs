//! What it costs to hold locks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lock_core::{Error, Guard};
use rustix::time::{ClockId, clock_gettime};

use crate::{sample::Sample, store::Subject};

const LOCKS: usize = 1_000;
/// Renewed every third of it.
const LEASE: Duration = Duration::from_secs(3);

/// Processor time that this process has used.
fn used() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or(0))
}

/// Holds 1,000 locks by one client for at least two rounds of renewal; the sample's "operations" are
/// renewals, and its times the processor time of one.
pub(super) async fn measure(
    subject: &Arc<Subject>,
    slice: Duration,
) -> Result<Option<Sample>, Error> {
    let client = &subject.clients[0];
    let lease = LEASE.max(subject.backend().guarantees().shortest_lease);
    let guards: Vec<Guard> = stream::iter(0..LOCKS)
        .map(|lock| client.lock(subject.name(format_args!("held {lock}"))).lease(lease).acquire())
        .buffer_unordered(64)
        .try_collect()
        .await?;
    let (before, began) = (used(), Instant::now());
    tokio::time::sleep(slice.max(lease * 2 / 3)).await;
    let (cost, span) = (used() - before, began.elapsed());
    let held = guards.iter().filter(|guard| guard.is_valid()).count();
    let give_back = stream::iter(guards).map(Guard::release).buffer_unordered(64);
    give_back.try_collect::<Vec<()>>().await?;
    if held < LOCKS {
        return Ok(None);
    }
    // One renewal of each per third of a lease.
    let renewals = LOCKS as f64 * span.as_secs_f64() / (lease.as_secs_f64() / 3.0);
    let each = cost.as_secs_f64() * 1e6 / renewals;
    Ok(Some(Sample {
        count: renewals as u64,
        per_second: renewals / span.as_secs_f64(),
        p50_us: each,
        p99_us: each,
        quantiles_us: [each; 5],
    }))
}
