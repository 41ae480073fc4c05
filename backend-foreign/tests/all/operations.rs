//! Every operation of a store once.

use lock_core::{
    Backend, Env as _, FencingToken, ReleaseOptions, ReleaseOutcome, Renewal, SystemEnv,
};
use verification::missing_guards::cases::{LONG, granted, not_granted, request};

/// For a store after `init`. `job` must be free, and it is free again in the end.
pub(crate) async fn use_each(store: &dyn Backend) {
    store.identity().await.unwrap();
    store.clock_difference_micros().await.unwrap().unwrap();
    let wanted = request("job", LONG);
    let grant = granted(store, &wanted).await.unwrap();
    not_granted(store, &request("job", LONG)).await.unwrap();
    let renewed = store.renew(&[&grant], SystemEnv.now()).await;
    assert!(matches!(renewed[..], [Renewal::Renewed { .. }]), "{renewed:?}");
    let higher = FencingToken::new(grant.token.get() + 1).unwrap();
    store.raise(&grant, higher).await.unwrap();
    assert_eq!(store.highest_token().await.unwrap(), Some(higher));
    assert!(store.inspect(&grant.name).await.unwrap().is_some());
    assert_eq!(store.list(None).await.unwrap().locks.len(), 1);
    let keep = ReleaseOptions::new().with_keep(LONG);
    let kept = store.release(&grant, keep).await.unwrap();
    assert_eq!(kept.outcome, ReleaseOutcome::Released);
    assert_eq!(store.force_release(&grant.name).await.unwrap(), ReleaseOutcome::Released);
    let grant = granted(store, &wanted).await.unwrap();
    let released = store.release(&grant, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    for name in ["job", "new"] {
        store.abandon(&request(name, LONG)).await.unwrap();
    }
}
