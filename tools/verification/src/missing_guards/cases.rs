//! Cases for guards of many stores, beside those of the conformance suite, and helpers for cases.

// The name of a case says what it tries.
#![allow(missing_docs)]

use std::{sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, Enqueued, Env as _, Error, ErrorKind, FencingToken, Grant, Init, LockName,
    Mode, OwnerId, OwnerLabel, ReleaseOptions, Renewal, Request, SystemEnv, Waiter,
};

use super::setup::{Case, Clients, Verdict};
use crate::cases;

/// The cases that markers of every store may name.
pub fn common<S: Clients>() -> Vec<Case<S>> {
    cases![S: a_clean_up_of_what_is_kept, a_release_of_what_is_kept, a_renewal_of_what_is_kept, a_repeat_of_what_is_kept,
        a_raise_of_what_is_kept, a_shorter_renewal, a_renewal_above_the_longest_lease,
        a_raise_by_another, a_raise_far_ahead, a_raise_to_less, a_repeat_above_the_longest_lease,
        an_abandoned_owner_that_a_release_carries, a_reader_with_a_short_lease,
        a_late_renewal_by_a_reader]
}

pub const LONG: Duration = Duration::from_secs(20);
/// A lease that ends during a case.
pub const SHORT: Duration = Duration::from_millis(300);

/// Connects to a store and makes it grant at once.
pub async fn first_use<S: Clients>(setup: &S) -> Arc<dyn Backend> {
    let store = setup.open().await;
    store.init(&Init::new().with_first_use(true)).await.unwrap();
    store
}

pub fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

pub fn request(text: &str, lease: Duration) -> Request {
    let owner = OwnerId::from_bits(SystemEnv.random());
    let label = OwnerLabel::new("guards").unwrap();
    Request::new(name(text), owner, label, lease, SystemEnv.now())
}

pub fn reader(lease: Duration) -> Request {
    request("a", lease).with_mode(Mode::Shared)
}

pub async fn granted(store: &dyn Backend, request: &Request) -> Result<Grant, String> {
    match store.try_acquire(request).await {
        Ok(Attempt::Granted(grant)) => Ok(grant),
        other => Err(format!("{} was not granted: {other:?}", request.name)),
    }
}

/// Asserts that the store does not grant this.
pub async fn not_granted(store: &dyn Backend, request: &Request) -> Verdict {
    let asking = async {
        loop {
            match store.try_acquire(request).await {
                Ok(Attempt::Granted(grant)) => {
                    return Err(format!("{} was granted, with {}", request.name, grant.token));
                }
                Ok(_) => return Ok(()),
                // The connection broke when its server ended.
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    };
    tokio::time::timeout(LONG, asking).await.unwrap_or_else(|_| Err("no answer".into()))
}

pub async fn enqueue(store: &dyn Backend, request: &Request) -> Result<Box<dyn Waiter>, String> {
    match store.enqueue(request).await.map_err(words)? {
        Enqueued::Waiting(waiter, _) => Ok(waiter),
        other => Err(format!("not to be waited for: {other:?}")),
    }
}

/// Asserts that this owner holds `a`.
pub async fn held_by(store: &dyn Backend, owner: OwnerId) -> Verdict {
    let state = store.inspect(&name("a")).await.map_err(words)?;
    let holder = state.and_then(|state| state.holder);
    let right = holder.as_ref().is_some_and(|holder| holder.owner == owner);
    check(right, || format!("{owner} should hold it: {holder:?}"))
}

/// Asserts that the second token is above the first.
pub fn above(first: &Grant, second: &Grant) -> Verdict {
    check(second.token > first.token, || {
        format!("token {} came after {}", second.token, first.token)
    })
}

pub fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Lowers the longest lease after the grant; the renewal must not exceed the new one.
pub async fn a_renewal_above_the_longest_lease<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let mut grant = granted(&*store, &request("a", LONG / 2)).await?;
    let lower = Init::new().with_longest_lease(LONG);
    store.init(&lower).await.map_err(words)?;
    grant.lease = 10 * LONG;
    store.renew(&[&grant], SystemEnv.now()).await;
    let state = store.inspect(&grant.name).await.map_err(words)?;
    match state.and_then(|state| state.holder) {
        Some(holder) if holder.remaining <= LONG => Ok(()),
        other => Err(format!("it is held for longer than {LONG:?}: {other:?}")),
    }
}

/// `lock` begins a transaction that locks the row of `a`.
pub async fn a_batch_with_a_locked_row<S: Clients, T>(
    setup: &S,
    lock: impl Future<Output = Result<T, String>>,
) -> Verdict {
    let store = first_use(setup).await;
    let locked = granted(&*store, &request("a", LONG)).await?;
    let other = granted(&*store, &request("b", LONG)).await?;
    let _holding = lock.await?;
    let both = [&locked, &other];
    let answers = tokio::time::timeout(LONG / 2, store.renew(&both, SystemEnv.now())).await;
    match answers.as_deref() {
        Ok([Renewal::Unknown(_), Renewal::Renewed { .. }]) => Ok(()),
        Ok(other) => Err(format!("it was answered {other:?}")),
        Err(_) => Err("the whole batch waits for a row that another has".to_owned()),
    }
}

pub fn check<T>(holds: bool, what: impl FnOnce() -> T) -> Result<(), T> {
    if holds { Ok(()) } else { Err(what()) }
}

/// The answer must be an error of this kind.
pub fn refused<T: std::fmt::Debug>(kind: ErrorKind, answer: Result<T, Error>) -> Verdict {
    match answer {
        Err(error) if error.kind() == kind => Ok(()),
        other => Err(format!("it was not refused: {other:?}")),
    }
}

pub async fn renewed(store: &dyn Backend, grant: &Grant) -> Renewal {
    store.renew(&[grant], SystemEnv.now()).await.pop().unwrap()
}

pub async fn left(store: &dyn Backend) -> Result<Duration, String> {
    let state = store.inspect(&name("a")).await.map_err(words)?;
    Ok(state.and_then(|state| state.holder).ok_or("nobody holds it")?.remaining)
}

pub async fn kept(store: &dyn Backend) -> Result<Grant, String> {
    let grant = granted(store, &request("a", LONG)).await?;
    let options = ReleaseOptions::new().with_keep(LONG);
    store.release(&grant, options).await.map_err(words)?;
    Ok(grant)
}

pub async fn a_repeat_of_what_is_kept<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = kept(&*store).await?;
    let mut again = request("a", LONG);
    again.owner = grant.owner;
    not_granted(&*store, &again).await
}

pub async fn a_shorter_renewal<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let mut grant = granted(&*store, &request("a", LONG)).await?;
    grant.lease = LONG / 10;
    renewed(&*store, &grant).await;
    let left = left(&*store).await?;
    check(left > LONG / 5, || format!("it ends in {left:?}"))
}

pub async fn a_release_of_what_is_kept<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = kept(&*store).await?;
    store.release(&grant, ReleaseOptions::default()).await.map_err(words)?;
    not_granted(&*store, &request("a", LONG)).await
}

pub async fn a_clean_up_of_what_is_kept<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let mut asked = request("a", LONG);
    asked.owner = kept(&*store).await?.owner;
    store.abandon(&asked).await.map_err(words)?;
    not_granted(&*store, &request("a", LONG)).await
}

pub async fn a_renewal_of_what_is_kept<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = kept(&*store).await?;
    let answer = renewed(&*store, &grant).await;
    check(matches!(answer, Renewal::Lost(_)), || format!("it was answered {answer:?}"))
}

pub async fn a_raise_by_another<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let mut grant = granted(&*store, &request("a", LONG)).await?;
    let higher = FencingToken::new(grant.token.get() + 1).unwrap();
    grant.owner = request("a", LONG).owner;
    refused(ErrorKind::NotHeld, store.raise(&grant, higher).await)
}

pub async fn a_raise_of_what_is_kept<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = kept(&*store).await?;
    let higher = FencingToken::new(grant.token.get() + 1).unwrap();
    refused(ErrorKind::NotHeld, store.raise(&grant, higher).await)
}

pub async fn a_raise_far_ahead<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    let far = FencingToken::new(grant.token.get() + 600_000_000).unwrap();
    refused(ErrorKind::InvalidInput, store.raise(&grant, far).await)
}

pub async fn a_raise_to_less<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = granted(&*store, &request("a", LONG)).await?;
    let lower = FencingToken::new(grant.token.get() - 1).unwrap();
    store.raise(&grant, lower).await.map_err(words)?;
    let state = store.inspect(&grant.name).await.map_err(words)?.ok_or("it is gone")?;
    check(state.token == grant.token, || format!("the token is {}", state.token))
}

/// Another client has lowered the longest lease.
pub async fn a_repeat_above_the_longest_lease<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let wanted = request("a", LONG);
    granted(&*store, &wanted).await?;
    let lower = Init::new().with_first_use(true).with_longest_lease(LONG / 2);
    setup.open().await.init(&lower).await.map_err(words)?;
    refused(ErrorKind::InvalidInput, store.try_acquire(&wanted).await)
}

pub async fn an_abandoned_owner_that_a_release_carries<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let next = request("a", LONG);
    store.abandon(&next).await.map_err(words)?;
    let options = ReleaseOptions::new().with_next(&next);
    store.release(&held, options).await.map_err(words)?;
    granted(&*store, &request("a", LONG)).await.map(drop)
}

pub async fn a_reader_with_a_short_lease<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &reader(LONG)).await?;
    granted(&*store, &reader(SHORT)).await?;
    tokio::time::sleep(2 * SHORT).await;
    not_granted(&*store, &request("a", LONG)).await
}

pub async fn a_late_renewal_by_a_reader<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = granted(&*store, &reader(SHORT)).await?;
    tokio::time::sleep(2 * SHORT).await;
    let answer = renewed(&*setup.open().await, &grant).await;
    check(!matches!(answer, Renewal::Renewed { .. }), || "it was renewed".to_owned())
}
