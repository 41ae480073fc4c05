//! S1, S3, S5, L1: how long a grant lasts, in the store and for its holder.

use std::time::Duration;

use lock_core::{
    Attempt, Backend, Env as _, ErrorKind, Grant, LossReason, ReleaseOptions, ReleaseOutcome,
    Renewal, SystemEnv, drift_margin,
};

use super::cases;
use crate::setting::{Setting, eventually, granted, renew};

cases! {
    "L1" an_unrenewed_lease_ends_and_not_before_its_time;
    "S5" a_renewal_does_not_bring_an_expired_grant_back;
    "S3" a_guard_is_valid_for_less_than_the_lease;
    "S3" a_renewal_sets_the_lease_anew;
    "S3" a_release_may_keep_the_lock_for_a_while;
    "S3" the_lease_is_at_least_the_one_that_was_asked_for;
    "S3" a_lease_out_of_range_is_refused_with_the_range;
    "S3" hold_at_most_ends_a_guard;
    "S1" a_lease_above_the_longest_is_refused_by_the_store;
}

async fn an_unrenewed_lease_ends_and_not_before_its_time(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let request = setting.short_request(&name);
    let grant = granted(&*one, &request).await;
    eventually("the lock of a dead holder is free", setting.patience(), || async {
        let state = other.inspect(&name).await.unwrap();
        state.is_none_or(|state| state.holder.is_none()).then_some(())
    })
    .await;
    let held = SystemEnv.now().since(grant.from);
    let believed = grant.lease - (drift_margin(grant.lease) + grant.margin).min(grant.lease);
    assert!(
        held >= believed,
        "the lock was free after {held:?}, but its guard would have been valid for {believed:?}"
    );
    granted(&*other, &setting.request(&name)).await;
}

async fn a_renewal_does_not_bring_an_expired_grant_back(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let gone = granted(&*backend, &setting.short_request(&name)).await;
    eventually("the lease runs out", setting.patience(), || async {
        let state = backend.inspect(&name).await.unwrap();
        state.is_none_or(|state| state.holder.is_none()).then_some(())
    })
    .await;
    let answers = renew(&*backend, &[&gone]).await;
    assert!(
        matches!(answers[..], [Renewal::Lost(LossReason::Gone)]),
        "the renewal of an expired grant must answer Lost(Gone): {answers:?}"
    );
    let released = backend.release(&gone, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::NotHeld);
}

async fn a_guard_is_valid_for_less_than_the_lease(setting: &Setting) {
    let client = setting.client().await;
    let lease = setting.long_lease();
    let guard = client.lock(setting.name("job")).lease(lease).acquire().await.unwrap();
    assert!(guard.is_valid());
    let least = drift_margin(lease);
    assert!(
        guard.remaining() <= lease - least,
        "the guard is valid for {:?} of a lease of {lease:?}: the margin for clock drift is missing",
        guard.remaining()
    );
    guard.release().await.unwrap();
}

async fn a_renewal_sets_the_lease_anew(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    // If the machine stands still for a whole lease, the round shows nothing, and the next one has
    // a lease twice as long.
    let mut lease = setting.lease();
    while lease <= setting.long_lease() {
        let name = setting.name(&format!("job of {lease:?}"));
        let mut request = setting.request(&name);
        request.lease = lease;
        let grant = granted(&*one, &request).await;
        if outlives_its_lease(setting, &*one, &*other, &grant).await {
            return;
        }
        one.release(&grant, ReleaseOptions::default()).await.unwrap();
        lease *= 2;
    }
    panic!("no result: in each round the store or the machine stood still for a whole lease");
}

/// Renews for three leases. Returns `false` if the store or the machine was too slow for that.
/// Panics if the lock was lost although it was renewed in time.
async fn outlives_its_lease(
    setting: &Setting,
    one: &dyn Backend,
    other: &dyn Backend,
    grant: &Grant,
) -> bool {
    let (mut renewed, end) = (grant.from, grant.from + grant.lease * 3);
    loop {
        let sent = SystemEnv.now();
        let answers = one.renew(&[grant], sent).await;
        let [Renewal::Renewed { from, lease }] = answers[..] else {
            let since = SystemEnv.now().since(renewed);
            let unknown = matches!(answers[..], [Renewal::Unknown(_)]);
            assert!(unknown || since >= grant.lease, "lost {since:?} after a renewal: {answers:?}");
            return false;
        };
        assert!(from <= sent && lease >= grant.lease, "{from:?} {lease:?}");
        renewed = from;
        tokio::time::sleep(grant.lease / 4).await;
        let asked = SystemEnv.now();
        let attempt = other.try_acquire(&setting.request(&grant.name)).await.unwrap();
        if matches!(attempt, Attempt::Granted(_)) {
            let since = SystemEnv.now().since(renewed);
            assert!(since >= grant.lease, "free {since:?} after a renewal, before the lease ended");
            return false;
        }
        if asked >= end {
            return true;
        }
    }
}

async fn a_release_may_keep_the_lock_for_a_while(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    // After the release of an attempt that the core has repeated, the core also abandons the owner.
    for abandoned in [false, true] {
        is_kept(setting, &*one, &*other, abandoned).await;
    }
}

async fn is_kept(setting: &Setting, one: &dyn Backend, other: &dyn Backend, abandoned: bool) {
    let name = setting.name(if abandoned { "abandoned" } else { "job" });
    let request = setting.request(&name);
    let grant = granted(one, &request).await;
    let keep = setting.lease();
    let before = SystemEnv.now();
    let released = one.release(&grant, ReleaseOptions::new().with_keep(keep)).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    if abandoned {
        one.abandon(&request).await.unwrap();
    }
    let late = renew(one, &[&grant]).await;
    assert!(
        matches!(late[..], [Renewal::Lost(_)]),
        "a lock that was released with `keep` must not be renewed: {late:?}"
    );
    eventually("a lock that was released with `keep` is free", setting.patience(), || async {
        other.try_acquire(&setting.request(&name)).await.unwrap().granted()
    })
    .await;
    let kept = SystemEnv.now().since(before);
    let least = keep - drift_margin(keep);
    assert!(
        kept >= least,
        "the lock was kept for {kept:?} instead of {keep:?} (abandoned: {abandoned})"
    );
}

async fn the_lease_is_at_least_the_one_that_was_asked_for(setting: &Setting) {
    let backend = setting.connect().await;
    let request = setting.short_request(&setting.name("job"));
    let grant = granted(&*backend, &request).await;
    let step = setting.promised().lease_step;
    assert!(
        grant.lease >= request.lease && grant.lease <= request.lease + step,
        "the lease must be {:?} or up to {step:?} longer: {grant:?}",
        request.lease
    );
    assert!(grant.from <= SystemEnv.now());
}

async fn a_lease_out_of_range_is_refused_with_the_range(setting: &Setting) {
    let client = setting.client().await;
    let name = setting.name("job");
    let longest = setting.promised().longest_lease;
    for lease in [Duration::ZERO, longest + Duration::from_secs(1)] {
        let error = client.lock(&name).lease(lease).acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        let range = humantime::format_duration(longest).to_string();
        assert!(error.to_string().contains(&range), "the error must name {range}: {error}");
    }
    let state = client.backend().inspect(&name).await.unwrap();
    assert!(state.is_none(), "the client must refuse before it sends a request: {state:?}");
}

async fn hold_at_most_ends_a_guard(setting: &Setting) {
    let client = setting.client().await;
    let name = setting.name("job");
    let most = setting.lease() / 2;
    let lock = client.lock(&name).lease(setting.long_lease()).hold_at_most(most);
    let guard = lock.acquire().await.unwrap();
    assert!(guard.remaining() <= most);
    assert_eq!(guard.lost().await, LossReason::HoldLimit);
    assert!(!guard.is_valid());
    // The client releases it, and does not wait for the lease to end.
    let after = client.lock(&name).wait(setting.patience()).acquire().await;
    assert!(after.is_ok(), "after `hold_at_most` the client left the lock behind: {after:?}");
}

/// The client checks the lease too, but the store's setting may have changed since the client
/// looked.
async fn a_lease_above_the_longest_is_refused_by_the_store(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let mut request = setting.request(&name);
    request.lease = setting.promised().longest_lease + Duration::from_secs(1);
    let error = match backend.try_acquire(&request).await {
        Err(error) => error,
        Ok(other) => {
            panic!(
                "a lease of {:?} is above the longest and must be refused: {other:?}",
                request.lease
            )
        }
    };
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    granted(&*backend, &setting.request(&name)).await;
}
