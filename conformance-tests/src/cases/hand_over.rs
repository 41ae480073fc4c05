//! S1, S4, S5, S6: a held lock gets a new owner in one step, and the former owner has nothing.

use std::time::Duration;

use lock_core::{
    Backend, Env as _, ErrorKind, FencingToken, Grant, LockName, OwnerId, ReleaseOptions,
    ReleaseOutcome, Renewal, Request, SystemEnv,
};

use super::{cases, hands_over};
use crate::setting::{Setting, eventually, granted, pause, refused, renew};

cases! {
    "S4" a_lock_that_is_handed_over_has_one_owner hands_over;
    "S1" a_lock_is_handed_over_once hands_over;
    "S4" only_the_named_grant_is_handed_over hands_over;
    "S5" what_is_gone_is_not_handed_over hands_over;
    "L1" a_lock_that_is_handed_over_has_its_new_lease hands_over;
    "S6" an_abandoned_owner_is_handed_nothing hands_over;
    "S1" a_detached_guard_is_attached_once hands_over;
}

/// Hands the lock over, and repeats the call while its outcome is unknown.
async fn reown(backend: &dyn Backend, grant: &Grant, request: &Request) -> Option<Grant> {
    loop {
        match backend.reown(grant, request).await {
            Err(error) if error.is_retryable() => pause().await,
            answer => return answer.expect("an answer"),
        }
    }
}

/// What another process knows of a grant: nothing of the backend.
fn bare(grant: &Grant) -> Grant {
    let mut bare = grant.clone();
    bare.state = None;
    bare
}

async fn holder(backend: &dyn Backend, name: &LockName) -> Option<OwnerId> {
    let state = backend.inspect(name).await.expect("an answer");
    state.and_then(|state| state.holder).map(|holder| holder.owner)
}

fn is_lost(answers: &[Renewal]) -> bool {
    matches!(answers, [Renewal::Lost(_)])
}

fn is_renewed(answers: &[Renewal]) -> bool {
    matches!(answers, [Renewal::Renewed { .. }])
}

async fn a_lock_that_is_handed_over_has_one_owner(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let former = granted(&*one, &setting.request(&name)).await;
    let known = bare(&former);
    let request = setting.request(&name);
    let new = reown(&*other, &known, &request).await.expect("the grant holds the lock");
    assert_eq!((new.owner, new.token), (request.owner, former.token));
    assert!(is_lost(&renew(&*one, &[&former]).await), "the former owner has renewed");
    let released = one.release(&former, ReleaseOptions::new()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::NotHeld, "the former owner has released");
    let state = one.inspect(&name).await.unwrap().expect("a held lock");
    let shown = state.holder.expect("its holder");
    assert_eq!((shown.owner, &shown.label), (request.owner, &request.label));
    assert_eq!(state.token, former.token);
    assert!(is_renewed(&renew(&*other, &[&new]).await), "the new owner cannot renew");
    let busy = refused(&*one, &setting.request(&name)).await;
    assert_eq!(busy.token, former.token);
    let released = other.release(&new, ReleaseOptions::new()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    let next = granted(&*one, &setting.request(&name)).await;
    assert!(next.token > former.token);
}

async fn a_lock_is_handed_over_once(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let former = granted(&*one, &setting.request(&name)).await;
    let known = bare(&former);
    let request = setting.request(&name);
    let new = reown(&*other, &known, &request).await.expect("the grant holds the lock");
    assert!(reown(&*one, &known, &setting.request(&name)).await.is_none(), "a second owner");
    assert_eq!(holder(&*one, &name).await, Some(request.owner));
    // A repeat of the first call.
    let again = reown(&*other, &known, &request).await.expect("a repeat by the owner");
    assert_eq!((again.owner, again.token), (new.owner, new.token));
    assert!(is_renewed(&renew(&*other, &[&again]).await));
    // After the release no late copy of either call gets the lock.
    other.release(&again, ReleaseOptions::new()).await.unwrap();
    assert!(reown(&*other, &known, &request).await.is_none(), "a released lock came back");
    assert_eq!(holder(&*one, &name).await, None);
}

async fn only_the_named_grant_is_handed_over(setting: &Setting) {
    let backend = setting.connect().await;
    let (name, free) = (setting.name("job"), setting.name("free"));
    let held = granted(&*backend, &setting.request(&name)).await;
    let lower = FencingToken::new(held.token.get() - 1).expect("a token");
    let stranger = setting.request(&name).owner;
    let mut others = [bare(&held), bare(&held), bare(&held)];
    others[0].token = lower;
    others[1].owner = stranger;
    others[2].name = free.clone();
    for changed in others {
        let request = setting.request(&changed.name);
        let answer = reown(&*backend, &changed, &request).await;
        assert!(answer.is_none(), "{changed:?} holds nothing");
    }
    assert_eq!(holder(&*backend, &name).await, Some(held.owner));
    assert_eq!(holder(&*backend, &free).await, None);
    assert!(is_renewed(&renew(&*backend, &[&held]).await), "its holder has lost the lock");
}

async fn what_is_gone_is_not_handed_over(setting: &Setting) {
    let backend = setting.connect().await;
    let keep = setting.long_lease();
    for (part, options) in
        [("released", ReleaseOptions::new()), ("kept", ReleaseOptions::new().with_keep(keep))]
    {
        let name = setting.name(part);
        let gone = granted(&*backend, &setting.request(&name)).await;
        backend.release(&gone, options).await.unwrap();
        let gone = bare(&gone);
        let answer = reown(&*backend, &gone, &setting.request(&name)).await;
        assert!(answer.is_none(), "the {part} lock was handed over");
    }
    let name = setting.name("expired");
    let expired = granted(&*backend, &setting.short_request(&name)).await;
    let free = || async { holder(&*backend, &name).await.is_none().then_some(()) };
    eventually("the lease is over", setting.patience(), free).await;
    let expired = bare(&expired);
    assert!(reown(&*backend, &expired, &setting.request(&name)).await.is_none());
    assert_eq!(holder(&*backend, &name).await, None);
}

async fn a_lock_that_is_handed_over_has_its_new_lease(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let former = granted(&*one, &setting.request(&name)).await;
    let known = bare(&former);
    let request = setting.short_request(&name);
    let new = reown(&*other, &known, &request).await.expect("the grant holds the lock");
    assert!(new.lease >= setting.lease());
    let free = || async { holder(&*one, &name).await.is_none().then_some(()) };
    eventually("the new lease is over", setting.patience(), free).await;
    let held = SystemEnv.now().since(new.from) + Duration::from_millis(1);
    assert!(held >= setting.lease(), "free after {held:?}");
    assert!(is_lost(&renew(&*other, &[&new]).await));
}

async fn an_abandoned_owner_is_handed_nothing(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let former = granted(&*one, &setting.request(&name)).await;
    let known = bare(&former);
    let request = setting.request(&name);
    other.abandon(&request).await.unwrap();
    // A late call: its client has given this owner up.
    assert!(reown(&*other, &known, &request).await.is_none(), "an abandoned owner has the lock");
    assert_eq!(holder(&*one, &name).await, Some(former.owner));
    // Another owner may still take it over, and its abandonment frees the lock.
    let request = setting.request(&name);
    reown(&*other, &known, &request).await.expect("the grant holds the lock");
    other.abandon(&request).await.unwrap();
    assert_eq!(holder(&*one, &name).await, None, "abandoned, and still held");
    assert!(reown(&*other, &known, &request).await.is_none());
}

async fn a_detached_guard_is_attached_once(setting: &Setting) {
    let (one, other) = (setting.client().await, setting.client().await);
    let name = setting.name("job");
    let guard = one.lock(name.clone()).lease(setting.long_lease()).acquire().await.unwrap();
    let (token, owner) = (guard.token(), guard.owner());
    let records = setting.promised().record.holds();
    if records {
        guard.write_record("one", Duration::from_secs(60)).await.unwrap();
    }
    let detached = guard.detach().await.unwrap();
    // The end of the client leaves the lock alone.
    one.close().await;
    assert_eq!(holder(&**other.backend(), &name).await, Some(owner));
    let guard = other.attach(&detached).await.unwrap();
    assert_eq!(guard.token(), token);
    assert!(guard.is_valid() && guard.owner() != owner);
    let third = setting.client().await;
    let error = third.attach(&detached).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
    if records {
        // The next write of the same grant has the next number.
        guard.write_record("two", Duration::from_secs(60)).await.unwrap();
        let record = third.read_record(name.clone()).await.unwrap().record.expect("a record");
        assert_eq!(record.value, b"two");
    }
    guard.release().await.unwrap();
    assert_eq!(holder(&**other.backend(), &name).await, None);
    let error = third.attach(&detached).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
}
