//! What it costs to hold locks.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lock_core::{Error, Guard};
use rustix::time::{ClockId, clock_gettime};

use super::{MANY, Measure};
use crate::{sample::Sample, store::Subject};

/// Renewed every third of it, so that one of these thirds has one renewal of each lock.
const LEASE: Duration = Duration::from_secs(6);

/// How many locks are held at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    locks: usize,
    pub(crate) measure: Measure,
}

impl Held {
    /// The most useful first, since there may not be time for all.
    pub(crate) const ALL: [Self; 3] = [
        Self { locks: 1_000, measure: Measure::Held1000 },
        Self { locks: 10_000, measure: Measure::Held10000 },
        Self { locks: 1, measure: Measure::Held1 },
    ];

    /// How long it takes on a store that acquires and releases so many locks per second.
    pub(crate) fn takes(self, pairs_per_second: f64) -> Duration {
        let pairs = self.locks as f64 / pairs_per_second.max(1.0);
        LEASE / 3 + Duration::from_secs_f64((pairs * 1.5).min(3600.0))
    }

    /// Holds them by one client for a third of the lease; `None` where they could not all be kept.
    pub(crate) async fn measure(self, subject: &Arc<Subject>) -> Result<Option<Sample>, Error> {
        let client = &subject.clients[0];
        let lease = LEASE.max(subject.backend().guarantees().shortest_lease);
        let names = (0..self.locks).map(|lock| subject.name(format_args!("held {lock}")));
        let guards: Vec<Guard> = stream::iter(names)
            .map(|name| client.lock(name).lease(lease).acquire())
            .buffer_unordered(MANY)
            .try_collect()
            .await?;
        let (counted, used, began) = (subject.count().await, used(), Instant::now());
        tokio::time::sleep(lease / 3).await;
        let (used, span) = (self::used() - used, began.elapsed());
        let counted = subject.counted_since(counted).await;
        let held = guards.iter().filter(|guard| guard.is_valid()).count();
        let give_back = stream::iter(guards).map(Guard::release).buffer_unordered(MANY);
        // One that is lost cannot be given back, and need not be.
        give_back.for_each(|_| std::future::ready(())).await;
        if held < self.locks {
            return Ok(None);
        }
        let renewals = self.locks as f64 * span.as_secs_f64() / (lease.as_secs_f64() / 3.0);
        Ok(Some(Sample::of_held(renewals, used, counted, span)))
    }
}

/// Processor time that this process has used.
fn used() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or(0))
}
