//! What becomes of very many locks whose holders die together.

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use lock_core::{Backend, Env as _, Grant, LockName, Renewal, SystemEnv};

use crate::support::{connect, request, single};

const LOCKS: usize = 2_500;
const LEASE: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

async fn take(backend: &dyn Backend) -> Vec<Grant> {
    let takes = (0..LOCKS).map(|number| async move {
        let mut asked = request();
        asked.name = LockName::new(format!("job {number}")).unwrap();
        asked.lease = LEASE;
        backend.try_acquire(&asked).await.unwrap().granted().unwrap()
    });
    stream::iter(takes).buffer_unordered(64).collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_that_end_together_end_at_the_rate_that_is_promised() {
    let etcd = single().await;
    let member = &etcd.members()[0];
    let backend = connect(etcd.endpoints()[0], "30s").await;
    let promised = backend.guarantees();
    let rate = promised.expiries_per_second.unwrap();
    let held = take(&*backend).await;
    // From here on nobody renews.
    let last = Instant::now();
    for answer in backend.renew(&held.iter().collect::<Vec<_>>(), SystemEnv.now()).await {
        assert!(matches!(answer, Renewal::Renewed { .. }), "{answer:?}");
    }
    let asked = last.elapsed();
    let mut seen: Vec<(Instant, Instant, f64)> = Vec::new();
    let ended = loop {
        let before = Instant::now();
        let expired = member.metric("etcd_debugging_server_lease_expired_total").await.unwrap();
        seen.push((before, Instant::now(), expired));
        if expired >= LOCKS as f64 {
            break last.elapsed();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    println!("{LOCKS} leases, renewed within {asked:?}, had ended after {ended:?}");
    let bound = LEASE + promised.expiry_slack + SECOND.mul_f64(LOCKS as f64 / f64::from(rate));
    assert!(ended < bound, "the last ended after {ended:?}, promised were {bound:?}");
    // etcd looks twice a second, so that a second may have three looks.
    let most = f64::from(rate) * 1.5;
    for (at, (from, _, before)) in seen.iter().enumerate() {
        let within = seen[at..].iter().take_while(|(_, to, _)| *to - *from <= SECOND).last();
        let more = within.map_or(0.0, |(_, _, after)| after - before);
        assert!(more <= most, "{more} leases ended in a second, and {rate} is told as the limit");
    }
}
