//! Measures what held locks cost: their renewals.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lock_core::{Env as _, Error, Guard, SystemEnv};
use rustix::time::{ClockId, clock_gettime};

use crate::{
    measurement::{MANY, Measure},
    sample::Sample,
    store::Subject,
};

/// A client renews after a third of this, so each lock is renewed once in that time.
const LEASE: Duration = Duration::from_secs(6);

/// A renewal moves the end of validity by more than this; two readings of the clock differ by less.
const TICK: Duration = Duration::from_millis(100);

/// How many locks to hold at the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    locks: usize,
    pub(crate) measure: Measure,
}

impl Held {
    /// The most useful ones first, since there may not be time for all.
    pub(crate) const ALL: [Self; 3] = [
        Self { locks: 1_000, measure: Measure::Held1000 },
        Self { locks: 10_000, measure: Measure::Held10000 },
        Self { locks: 1, measure: Measure::Held1 },
    ];

    /// How long this takes on a store with so many pairs of acquire and release per second.
    pub(crate) fn takes(self, pairs_per_second: f64) -> Duration {
        let pairs = self.locks as f64 / pairs_per_second.max(1.0);
        LEASE / 3 + Duration::from_secs_f64((pairs * 1.5).min(3600.0))
    }

    /// Lets one client hold the locks for a third of the lease, and until each was renewed. `None`
    /// if a lock was lost.
    pub(crate) async fn measure(self, subject: &Arc<Subject>) -> Result<Option<Sample>, Error> {
        let client = &subject.clients[0];
        let lease = LEASE.max(subject.backend().guarantees().shortest_lease);
        let names = (0..self.locks).map(|lock| subject.name(format_args!("held {lock}")));
        let guards: Vec<Guard> = stream::iter(names)
            .map(|name| client.lock(name).lease(lease).acquire())
            .buffer_unordered(MANY)
            .try_collect()
            .await?;
        let ends: Vec<_> = guards.iter().map(end).collect();
        let (counted, used, began) = (subject.count().await, used(), Instant::now());
        tokio::time::sleep(lease / 3).await;
        let waits = |(guard, first): (&Guard, &lock_core::Instant)| {
            guard.is_valid() && end(guard) <= *first + TICK
        };
        while guards.iter().zip(&ends).any(waits) {
            tokio::time::sleep(TICK).await;
        }
        let (used, span) = (self::used() - used, began.elapsed());
        let counted = subject.counted_since(counted).await;
        let held = guards.iter().filter(|guard| guard.is_valid()).count();
        let give_back = stream::iter(guards).map(Guard::release).buffer_unordered(MANY);
        // A lost lock need not be released.
        give_back.for_each(|_| std::future::ready(())).await;
        if held < self.locks {
            return Ok(None);
        }
        Ok(Some(Sample::of_held(self.locks as f64, used, counted, span)))
    }
}

/// When its validity ends without another renewal.
fn end(guard: &Guard) -> lock_core::Instant {
    SystemEnv.now() + guard.remaining()
}

/// Processor time that this process has used.
fn used() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or(0))
}

#[cfg(all(test, feature = "etcd", feature = "redis"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use leasehold::StoreUrl;
    use lock_core::Init;
    use servers::{Etcd, EtcdOptions, Redis, RedisOptions, Server as _};

    use super::*;
    use crate::store::Store;

    async fn subject(url: &str) -> Arc<Subject> {
        let url = StoreUrl::new(url).unwrap();
        let store = leasehold::open(url.clone()).await.unwrap();
        store.init(&Init::new().with_first_use(true)).await.unwrap();
        store.close().await;
        Arc::new(Subject::open(Store::new(url)).await.unwrap())
    }

    /// Requests to the store for each renewal of one lock, and the client's processor time.
    async fn cost(subject: &Arc<Subject>, locks: usize) -> (f64, f64) {
        let held = Held { locks, measure: Measure::Held1000 };
        let sample = held.measure(subject).await.unwrap().unwrap();
        assert_eq!(sample.count, locks as u64, "each was renewed");
        let percent = sample.processor_percent.unwrap();
        let all = std::thread::available_parallelism().unwrap().get() as f64 * 100.0;
        assert!(percent > 0.0 && percent <= all, "{percent}");
        assert!((sample.p50_us - percent * 1e4).abs() < 1.0, "{sample:?}");
        let requests = sample.counted_per_second.unwrap() / sample.per_second;
        (requests, percent / sample.per_second)
    }

    /// The counts of the stores must fit the renewals: etcd gets a message for each lease, Redis a
    /// script for each batch.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_held_locks_cost_is_what_their_renewals_ask() {
        let server = Redis::start(RedisOptions::new()).await.unwrap();
        let redis = subject(&format!("redis://{}", server.address())).await;
        let etcd_server = Etcd::single(EtcdOptions::new()).await.unwrap();
        let etcd = subject(&format!("etcd://{}", etcd_server.endpoints()[0])).await;
        let (one, one_time) = cost(&redis, 1).await;
        assert!((1.0..=3.0).contains(&one), "{one} scripts for a renewal");
        for locks in [1_000, 10_000] {
            let (each, time) = cost(&redis, locks).await;
            // At least one script in all, and far fewer than one for each lock. Some locks may be
            // renewed twice.
            assert!(each * locks as f64 >= 1.0 && each < 0.5, "{each} scripts for a renewal");
            assert!(time < one_time, "{time} for a renewal in batches, {one_time} for one alone");
        }
        for locks in [1, 1_000] {
            let (each, _) = cost(&etcd, locks).await;
            // Also messages for spare leases.
            let most = 3.0 + 40.0 / locks as f64;
            assert!((1.0..=most).contains(&each), "{each} messages for a renewal of {locks}");
        }
        redis.close().await;
        etcd.close().await;
    }
}
