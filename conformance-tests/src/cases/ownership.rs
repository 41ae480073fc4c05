//! S1, S4, S5, S6: a lock has one holder, and only the holder renews and releases it.

use std::collections::HashSet;

use futures_util::future::join_all;
use lock_core::{
    Attempt, Env as _, LossReason, ReleaseOptions, ReleaseOutcome, Renewal, SystemEnv,
};

use super::cases;
use crate::setting::{Setting, granted, refused, renew};

cases! {
    "S1" one_of_many_attempts_wins;
    "S1" a_held_lock_is_refused_with_its_holder_and_token;
    "S4" only_the_owner_releases;
    "S4" only_the_owner_renews;
    "S4" a_release_twice_is_not_held_the_second_time;
    "S4" a_batch_of_renewals_is_answered_one_by_one;
    "S5" a_renewal_does_not_bring_a_released_grant_back;
    "S5" a_renewal_does_not_bring_a_forced_grant_back;
    "S6" a_repeat_by_the_owner_is_the_same_grant;
}

async fn one_of_many_attempts_wins(setting: &Setting) {
    let backends = join_all((0..4).map(|_| setting.connect())).await;
    for round in 0..10 {
        let name = setting.name(&format!("job {round}"));
        let attempts = (0..16).map(|at| {
            let (backend, request) = (&backends[at % backends.len()], setting.request(&name));
            async move { backend.try_acquire(&request).await.unwrap().granted() }
        });
        let winners = join_all(attempts).await.into_iter().flatten().count();
        assert_eq!(winners, 1, "grants among 16 attempts at the same time");
    }
}

async fn a_held_lock_is_refused_with_its_holder_and_token(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let request = setting.request(&setting.name("job"));
    let grant = granted(&*one, &request).await;
    let busy = refused(&*other, &setting.request(&request.name)).await;
    assert_eq!(busy.token, grant.token);
    let holder = busy.holder.clone().expect("`Busy` must name the holder");
    assert_eq!((holder.owner, &holder.label), (request.owner, &request.label));
    assert!(
        holder.remaining <= grant.lease + setting.promised().lease_step,
        "`Busy` says that more time remains than the lease of {:?}: {holder:?}",
        grant.lease
    );
    assert!(!busy.retry_after.is_zero());
    let longest = setting.promised().longest_poll;
    assert!(
        busy.retry_after <= longest,
        "retry_after is above longest_poll, {longest:?}: {busy:?}"
    );
}

async fn only_the_owner_releases(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let gone = granted(&*one, &setting.request(&name)).await;
    one.release(&gone, ReleaseOptions::default()).await.unwrap();
    let held = granted(&*other, &setting.request(&name)).await;
    let late = one.release(&gone, ReleaseOptions::default()).await.unwrap();
    assert_eq!(late.outcome, ReleaseOutcome::NotHeld);
    let busy = refused(&*one, &setting.request(&name)).await;
    assert_eq!(busy.token, held.token, "the lock must still be the later owner's");
    assert_eq!(busy.holder.unwrap().owner, held.owner);
}

async fn only_the_owner_renews(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let gone = granted(&*backend, &setting.request(&name)).await;
    backend.release(&gone, ReleaseOptions::default()).await.unwrap();
    let held = granted(&*backend, &setting.request(&name)).await;
    let answers = renew(&*backend, &[&gone, &held]).await;
    assert!(
        matches!(answers[..], [Renewal::Lost(LossReason::TakenOver), Renewal::Renewed { .. }]),
        "{answers:?}"
    );
}

async fn a_release_twice_is_not_held_the_second_time(setting: &Setting) {
    let backend = setting.connect().await;
    let grant = granted(&*backend, &setting.request(&setting.name("job"))).await;
    for expected in [ReleaseOutcome::Released, ReleaseOutcome::NotHeld] {
        let released = backend.release(&grant, ReleaseOptions::default()).await.unwrap();
        assert_eq!(released.outcome, expected);
    }
}

async fn a_batch_of_renewals_is_answered_one_by_one(setting: &Setting) {
    let backend = setting.connect().await;
    let mut grants = Vec::new();
    for at in 0..40 {
        grants.push(granted(&*backend, &setting.request(&setting.name(&format!("n {at}")))).await);
    }
    let gone: HashSet<usize> = [0, 7, 8, 39].into();
    for at in &gone {
        backend.release(&grants[*at], ReleaseOptions::default()).await.unwrap();
    }
    let sent = SystemEnv.now();
    let answers = backend.renew(&grants.iter().collect::<Vec<_>>(), sent).await;
    assert_eq!(answers.len(), grants.len());
    for (at, answer) in answers.iter().enumerate() {
        match answer {
            Renewal::Lost(LossReason::Gone) => {
                assert!(gone.contains(&at), "grant {at} is held, and its renewal answered Lost");
            }
            Renewal::Renewed { from, .. } => {
                assert!(
                    !gone.contains(&at),
                    "grant {at} was released, and its renewal answered Renewed"
                );
                assert!(*from <= sent, "a renewed lease must count from before the request");
            }
            other => panic!("{at}: {other:?}"),
        }
    }
    assert!(backend.renew(&[], sent).await.is_empty());
}

async fn a_renewal_does_not_bring_a_released_grant_back(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let gone = granted(&*backend, &setting.request(&name)).await;
    backend.release(&gone, ReleaseOptions::default()).await.unwrap();
    let answers = renew(&*backend, &[&gone]).await;
    assert!(matches!(answers[..], [Renewal::Lost(_)]), "the renewal should be Lost: {answers:?}");
    granted(&*backend, &setting.request(&name)).await;
}

async fn a_renewal_does_not_bring_a_forced_grant_back(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let gone = granted(&*backend, &setting.request(&name)).await;
    assert_eq!(backend.force_release(&name).await.unwrap(), ReleaseOutcome::Released);
    let answers = renew(&*backend, &[&gone]).await;
    assert!(matches!(answers[..], [Renewal::Lost(_)]), "the renewal should be Lost: {answers:?}");
    assert_eq!(backend.force_release(&name).await.unwrap(), ReleaseOutcome::NotHeld);
    granted(&*backend, &setting.request(&name)).await;
}

async fn a_repeat_by_the_owner_is_the_same_grant(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let request = setting.request(&setting.name("job"));
    let first = granted(&*one, &request).await;
    // As if the answer was lost: the process sends the request again over another connection.
    let Attempt::Granted(again) = other.try_acquire(&request).await.unwrap() else {
        panic!("a repeated request of the owner must be granted again");
    };
    assert_eq!((again.token, again.owner), (first.token, first.owner));
    // A late repeat may ask for a shorter lease; it must not shorten the lease.
    let mut shortest = request.clone();
    shortest.lease = setting.promised().shortest_lease;
    let again = other.try_acquire(&shortest).await.unwrap().granted().expect("it is the owner");
    let holder = one.inspect(&request.name).await.unwrap().unwrap().holder.expect("it is held");
    let (left, lease) = (holder.remaining, request.lease);
    assert!(left > lease / 2, "the repeat shortened the lease of {lease:?} to {left:?}");
    one.release(&again, ReleaseOptions::default()).await.unwrap();
    granted(&*one, &setting.request(&request.name)).await;
}
