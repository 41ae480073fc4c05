//! Two stores in memory as one.

use std::sync::Arc;

use backend_migration::{Migration, Phase};
use lock_core::{
    Attempt, Backend, Env as _, ErrorKind, FencingToken, Memory, ReleaseOptions, ReleaseOutcome,
    Renewal, SystemEnv,
};

use crate::support::{
    faulty::Faulty,
    two::{LEASE, granted, name, request},
};

async fn is_free(store: &dyn Backend) -> bool {
    store.inspect(&name()).await.unwrap().is_none_or(|state| state.holder.is_none())
}

async fn migration(old: &Memory, new: &Memory, phase: Phase) -> Arc<Migration> {
    let [old, new] = [old, new].map(|store| Arc::new(store.clone()) as Arc<dyn Backend>);
    Arc::new(Migration::new(old, new, phase).await.unwrap())
}

#[tokio::test]
async fn a_grant_of_both_excludes_old_and_new_and_leaves_its_token_in_each() {
    for ahead_is_old in [true, false] {
        let (old, new) = (Memory::new(), Memory::new());
        // The tokens of one store are far ahead of those of the other.
        let ahead = if ahead_is_old { &old } else { &new };
        let mut early = request(1);
        early.floor = FencingToken::new(SystemEnv.wall_micros() + 5_000_000).unwrap();
        let far = ahead.try_acquire(&early).await.unwrap().granted().unwrap();
        ahead.release(&far, ReleaseOptions::default()).await.unwrap();

        let both = migration(&old, &new, Phase::Both).await;
        let grant = granted(&*both, 2).await;
        assert!(grant.token > far.token);
        for phase in [Phase::Old, Phase::New, Phase::Both] {
            let other = migration(&old, &new, phase).await;
            let attempt = other.try_acquire(&request(3)).await.unwrap();
            assert!(matches!(attempt, Attempt::Busy(_)), "{phase}: {attempt:?}");
            other.close().await;
        }
        let released = both.release(&grant, ReleaseOptions::default()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);
        for (owner, store) in [(4, &old), (5, &new)] {
            assert!(granted(store, owner).await.token > grant.token);
        }
    }
}

#[tokio::test]
async fn a_refusal_by_either_store_leaves_the_other_free() {
    for held_is_old in [true, false] {
        let (old, new) = (Memory::new(), Memory::new());
        let (held, other) = if held_is_old { (&old, &new) } else { (&new, &old) };
        let grant = granted(held, 1).await;
        let both = migration(&old, &new, Phase::Both).await;
        for _ in 0..2 {
            assert!(both.try_acquire(&request(2)).await.unwrap().granted().is_none());
            assert!(is_free(other).await);
        }
        held.release(&grant, ReleaseOptions::default()).await.unwrap();
        granted(&*both, 2).await;
    }
}

/// The holder may want another lease than the older waiter that made the entry.
#[tokio::test]
async fn a_renewal_requests_the_holders_lease_in_both_stores() {
    let (old, new) = (Memory::new(), Memory::new());
    let both = migration(&old, &new, Phase::Both).await;
    let mut grant = granted(&*both, 1).await;
    grant.lease = 2 * LEASE;
    let answers = both.renew(&[&grant], SystemEnv.now()).await;
    assert!(
        matches!(answers[..], [Renewal::Renewed { lease, .. }] if lease == 2 * LEASE),
        "{answers:?}"
    );
    for store in [&old, &new] {
        let holder = store.inspect(&name()).await.unwrap().unwrap().holder.unwrap();
        assert!(holder.remaining > LEASE);
    }
}

#[tokio::test]
async fn a_repeat_keeps_the_token_and_one_store_twice_is_refused() {
    let (old, new) = (Memory::new(), Memory::new());
    let both = migration(&old, &new, Phase::Both).await;
    assert_eq!(granted(&*both, 1).await.token, granted(&*both, 1).await.token);
    let twice: [Arc<dyn Backend>; 2] = [Arc::new(old.clone()), Arc::new(old)];
    let [one, two] = twice;
    let refused = Migration::new(one, two, Phase::Both).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
}

#[tokio::test]
async fn phase_both_is_as_valid_as_its_shorter_half() {
    // The second store sets a shorter lease than requested, as a store with another longest lease.
    let limits = [("a", LEASE), ("b", LEASE / 2)];
    let [old, new] = limits
        .map(|(identity, limit)| Arc::new(Faulty::limited(identity, limit)) as Arc<dyn Backend>);
    let both = Migration::new(old, new, Phase::Both).await.unwrap();
    let grant = granted(&both, 1).await;
    assert!(grant.lease <= LEASE / 2, "{:?}", grant.lease);
}
