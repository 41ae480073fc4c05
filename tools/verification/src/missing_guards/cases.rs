//! Cases for guards that every store has, and helpers for cases.

// The name of a case says what it tries.
#![allow(missing_docs)]

use std::{sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, Env as _, Grant, Init, LockName, OwnerId, OwnerLabel, ReleaseOptions,
    Renewal, Request, SystemEnv,
};

use super::list::{Clients, Verdict};

pub const LONG: Duration = Duration::from_secs(20);

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

/// Asserts that the second token is above the first.
pub fn above(first: &Grant, second: &Grant) -> Verdict {
    match second.token > first.token {
        true => Ok(()),
        false => Err(format!("token {} came after {}", second.token, first.token)),
    }
}

pub fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub async fn a_held_name<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &request("a", LONG)).await?;
    not_granted(&*store, &request("a", LONG)).await
}

pub async fn a_release_by_another<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let mut other = granted(&*store, &request("a", LONG)).await?;
    other.owner = request("a", LONG).owner;
    let _ = store.release(&other, ReleaseOptions::default()).await;
    not_granted(&*store, &request("a", LONG)).await
}

pub async fn kept_of_an_abandoned<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let asked = request("a", LONG);
    let grant = granted(&*store, &asked).await?;
    store.release(&grant, ReleaseOptions::new().with_keep(LONG)).await.map_err(words)?;
    store.abandon(&asked).await.map_err(words)?;
    not_granted(&*store, &request("a", LONG)).await
}

pub async fn a_renewal_by_another<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let mut grant = granted(&*store, &request("a", LONG)).await?;
    grant.owner = request("a", LONG).owner;
    // On a busy machine an answer may come too late.
    let answer = async {
        loop {
            match store.renew(&[&grant], SystemEnv.now()).await.pop() {
                Some(Renewal::Unknown(_)) => {}
                answer => return answer,
            }
        }
    };
    match tokio::time::timeout(LONG, answer).await {
        Ok(Some(Renewal::Renewed { .. })) => Err("somebody else's lock was renewed".to_owned()),
        _ => Ok(()),
    }
}

pub async fn a_late_renewal<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let grant = granted(&*store, &request("a", Duration::from_millis(300))).await?;
    tokio::time::sleep(Duration::from_millis(600)).await;
    match store.renew(&[&grant], SystemEnv.now()).await.pop() {
        Some(Renewal::Renewed { .. }) => Err("an expired lease was renewed".to_owned()),
        _ => Ok(()),
    }
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

pub async fn an_abandoned_owner<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let given_up = request("a", LONG);
    store.abandon(&given_up).await.map_err(words)?;
    not_granted(&*store, &given_up).await
}
