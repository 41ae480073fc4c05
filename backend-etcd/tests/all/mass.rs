//! Very many locks whose holders die together.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lock_core::{Backend, Env as _, Grant, Renewal, SystemEnv};

use crate::support::{connect, granted, request_for, single};

const LOCKS: usize = 2_500;
const LEASE: Duration = Duration::from_secs(20);
const SECOND: Duration = Duration::from_secs(1);

/// On a busy machine it may take longer than a lease to take all of them, so it renews meanwhile.
async fn take(backend: &dyn Backend) -> Vec<Grant> {
    let (mut held, mut renewed) = (Vec::new(), Instant::now());
    for numbers in (0..LOCKS).collect::<Vec<_>>().chunks(64) {
        let takes = numbers.iter().map(|number| async move {
            let mut request = request_for(&format!("job {number}"));
            request.lease = LEASE;
            granted(backend, &request).await
        });
        held.extend(join_all(takes).await);
        if renewed.elapsed() > LEASE / 4 {
            renewed = Instant::now();
            renew(backend, &held).await;
        }
    }
    held
}

async fn renew(backend: &dyn Backend, held: &[Grant]) {
    for answer in backend.renew(&held.iter().collect::<Vec<_>>(), SystemEnv.now()).await {
        assert!(matches!(answer, Renewal::Renewed { .. }), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_that_expire_together_end_at_the_promised_rate() {
    let etcd = single().await;
    let member = &etcd.members()[0];
    let backend = connect(etcd.endpoints()[0], "30s").await;
    let promised = backend.guarantees();
    let rate = promised.expiries_per_second.unwrap();
    let held = take(&*backend).await;
    // From here on nobody renews.
    let last = Instant::now();
    renew(&*backend, &held).await;
    let took = last.elapsed();
    // From the last renewal on.
    let bound = LEASE + promised.expiry_slack + SECOND.mul_f64(LOCKS as f64 / f64::from(rate));
    let mut seen: Vec<(Instant, Instant, f64)> = Vec::new();
    let ended = loop {
        let before = Instant::now();
        let expired = member.metric("etcd_debugging_server_lease_expired_total").await.unwrap();
        seen.push((before, Instant::now(), expired));
        if expired >= LOCKS as f64 {
            break last.elapsed();
        }
        // The look began before the bound, however long a busy machine took for it.
        assert!(before - last < took + bound, "{expired} of {LOCKS} leases ended within {bound:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    println!("{LOCKS} leases, renewed within {took:?}, had ended after {ended:?}");
    // etcd looks for expired leases twice a second, so there may be three looks within a second.
    let most = f64::from(rate) * 1.5;
    for (at, (from, _, before)) in seen.iter().enumerate() {
        let within = seen[at..].iter().take_while(|(_, to, _)| *to - *from <= SECOND).last();
        let more = within.map_or(0.0, |(_, _, after)| after - before);
        assert!(more <= most, "{more} leases ended in a second, and the promised limit is {rate}");
    }
}
