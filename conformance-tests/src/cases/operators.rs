//! What operators use: `inspect`, `list`, `force_release` and `init`.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use lock_core::{
    Attempt, Env as _, ErrorKind, Init, Listing, LossReason, QuarantineUse, ReleaseOptions,
    ReleaseOutcome, Renewal, SystemEnv,
};

use super::cases;
use crate::setting::{Setting, granted};

cases! {
    "operation" inspect_tells_the_holder_and_then_no_holder;
    "operation" what_is_kept_for_a_minimum_hold_is_told_from_what_is_held;
    "operation" a_list_shows_every_held_name;
    "operation" a_forced_release_of_one_grant_leaves_the_next_alone;
    "L5" a_forced_release_is_learnt_by_the_holder;
    "operation" init_of_a_store_in_use_changes_nothing;
    "S1" after_a_restore_init_holds_grants_back_or_refuses;
}

async fn inspect_tells_the_holder_and_then_no_holder(setting: &Setting) {
    let backend = setting.connect().await;
    let request = setting.request(&setting.name("job"));
    assert!(
        backend.inspect(&request.name).await.unwrap().is_none_or(|state| state.holder.is_none())
    );
    let grant = granted(&*backend, &request).await;
    let state = backend.inspect(&request.name).await.unwrap().expect("a held name");
    let holder = state.holder.expect("its holder");
    assert_eq!((holder.owner, holder.label), (request.owner, request.label));
    assert_eq!(state.token, grant.token);
    assert!(!holder.remaining.is_zero());
    backend.release(&grant, ReleaseOptions::default()).await.unwrap();
    let after = backend.inspect(&request.name).await.unwrap();
    assert!(after.is_none_or(|state| state.holder.is_none()));
}

async fn what_is_kept_for_a_minimum_hold_is_told_from_what_is_held(setting: &Setting) {
    let backend = setting.connect().await;
    let request = setting.request(&setting.name("job"));
    let grant = granted(&*backend, &request).await;
    assert!(!backend.inspect(&request.name).await.unwrap().expect("a held name").kept);
    let keep = setting.long_lease();
    backend.release(&grant, ReleaseOptions::new().with_keep(keep)).await.unwrap();
    let state = backend.inspect(&request.name).await.unwrap().expect("a name that is kept");
    assert!(state.kept && state.holder.is_some_and(|holder| holder.owner == request.owner));
    assert_eq!(backend.force_release(&request.name).await.unwrap(), ReleaseOutcome::Released);
    let again = granted(&*backend, &setting.request(&request.name)).await;
    assert!(!backend.inspect(&request.name).await.unwrap().expect("a held name").kept);
    backend.release(&again, ReleaseOptions::default()).await.unwrap();
}

/// A slow store answers one request after the other, and the other cases wait behind these.
const AT_ONCE: usize = 10;

async fn a_list_shows_every_held_name(setting: &Setting) {
    let backend = setting.connect().await;
    let own = setting.name("");
    let mut grants = BTreeMap::new();
    let requests: Vec<_> =
        (0..450).map(|at| setting.request(&setting.name(&format!("{at}")))).collect();
    for some in requests.chunks(90) {
        for few in some.chunks(AT_ONCE) {
            let few = join_all(few.iter().map(|request| granted(&*backend, request))).await;
            grants.extend(few.into_iter().map(|grant| (grant.name.clone(), grant)));
        }
        // On a busy machine a slow store may take longer than a lease for all of them. `Unknown` is
        // no loss: the next round renews.
        let held: Vec<_> = grants.values().collect();
        for renewal in backend.renew(&held, SystemEnv.now()).await {
            assert!(!matches!(renewal, Renewal::Lost(_)), "{renewal:?}");
        }
    }
    let (free, _) = grants.pop_first().unwrap();
    backend.force_release(&free).await.unwrap();
    let (mut seen, mut again) = (BTreeMap::new(), 0);
    let (mut listing, mut goes_on) = (Listing::new(), true);
    while goes_on {
        let page = backend.list(listing.cursor()).await.unwrap();
        goes_on = listing.goes_on(&page).unwrap();
        for state in page.locks {
            let holder = state.holder.expect("`list` must show only held names");
            // The names of other cases may change their holder meanwhile.
            if !state.name.as_str().starts_with(own.as_str()) {
                continue;
            }
            // A store that moves its keys meanwhile may list names twice, but not all of them.
            if let Some(before) = seen.insert(state.name.clone(), holder.owner) {
                assert_eq!(before, holder.owner, "{:?} has two holders", state.name);
                again += 1;
            }
        }
    }
    assert!(again < grants.len(), "all {again} names are listed twice");
    for (name, grant) in &grants {
        assert_eq!(seen.get(name), Some(&grant.owner), "`list` must show {name:?} with its owner");
    }
    assert!(!seen.contains_key(&free), "`list` must not show {free:?}, which is free");
    // Otherwise the lists of all later cases would be as long.
    for few in grants.into_values().collect::<Vec<_>>().chunks(AT_ONCE) {
        let release = |grant| backend.release(grant, ReleaseOptions::default());
        for released in join_all(few.iter().map(release)).await {
            released.unwrap();
        }
    }
}

async fn a_forced_release_is_learnt_by_the_holder(setting: &Setting) {
    let client = setting.client().await;
    let name = setting.name("job");
    // Longer than a busy machine may stand still: a renewal must report the loss, not the end of
    // the lease.
    let lease = (setting.lease() * 10).min(setting.long_lease());
    let guard = client.lock(&name).lease(lease).acquire().await.unwrap();
    assert_eq!(client.backend().force_release(&name).await.unwrap(), ReleaseOutcome::Released);
    let told = tokio::time::timeout(setting.patience() + lease, guard.lost()).await;
    let reason = told.expect("the guard must report its loss by the next renewal");
    assert!(
        matches!(reason, LossReason::Gone | LossReason::TakenOver),
        "the loss must be reported as Gone or TakenOver, not as {reason:?}"
    );
    assert!(!guard.is_valid());
}

async fn a_forced_release_of_one_grant_leaves_the_next_alone(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let first = granted(&*backend, &setting.request(&name)).await;
    let freed = match backend.force_release_if(&name, first.token).await {
        // It has said so, and done nothing.
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            assert!(backend.inspect(&name).await.unwrap().is_some_and(|it| it.holder.is_some()));
            backend.release(&first, ReleaseOptions::default()).await.unwrap();
            return;
        }
        freed => freed.unwrap(),
    };
    assert_eq!(freed, ReleaseOutcome::Released);
    let renewed = backend.renew(&[&first], SystemEnv.now()).await;
    assert!(matches!(renewed[..], [Renewal::Lost(_)]), "it must be gone: {renewed:?}");
    let second = granted(&*backend, &setting.request(&name)).await;
    // An operator who has seen the first.
    let freed = backend.force_release_if(&name, first.token).await.unwrap();
    assert_eq!(freed, ReleaseOutcome::NotHeld);
    let renewed = backend.renew(&[&second], SystemEnv.now()).await;
    assert!(matches!(renewed[..], [Renewal::Renewed { .. }]), "it must stay: {renewed:?}");
    let freed = backend.force_release_if(&name, second.token).await.unwrap();
    assert_eq!(freed, ReleaseOutcome::Released);
    let freed = backend.force_release_if(&name, second.token).await.unwrap();
    assert_eq!(freed, ReleaseOutcome::NotHeld);
}

async fn init_of_a_store_in_use_changes_nothing(setting: &Setting) {
    let backend = setting.connect().await;
    let name = setting.name("job");
    let grant = granted(&*backend, &setting.request(&name)).await;
    let settings = backend.init(&Init::default()).await.unwrap();
    assert_eq!(settings.longest_lease, setting.promised().longest_lease);
    let state = backend.inspect(&name).await.unwrap().expect("still held");
    assert_eq!(state.holder.map(|holder| holder.owner), Some(grant.owner));
}

async fn after_a_restore_init_holds_grants_back_or_refuses(setting: &Setting) {
    let can_hold_back =
        matches!(setting.promised().quarantine, QuarantineUse::On | QuarantineUse::Off);
    // Other cases must not meet the quarantine.
    let (setting, _store) = match can_hold_back {
        true => setting.over_a_fresh_store().await,
        false => (setting.clone(), None),
    };
    let backend = setting.connect().await;
    granted(&*backend, &setting.request(&setting.name("before"))).await;
    let restored = Init::new().with_restored(true);
    match backend.init(&restored).await {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
        Ok(_) if !can_hold_back => {
            panic!("init accepted `restored`, and the store has no quarantine: it must refuse")
        }
        Ok(settings) => {
            assert!(!settings.grants_in.is_zero(), "init must report the quarantine: {settings:?}");
            let attempt = backend.try_acquire(&setting.request(&setting.name("after"))).await;
            let held_back = matches!(attempt, Ok(Attempt::Quarantined(_)));
            assert!(
                held_back,
                "after a restore the store must answer Quarantined, not {attempt:?}"
            );
        }
    }
}
