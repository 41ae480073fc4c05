//! Cases of queue entries, for the guards of each database.

use std::fmt::Display;

use lock_core::{Backend, Enqueued, Grant, OwnerId, ReleaseOptions, Request, Waiter};
use verification::missing_guards::{
    Clients, Verdict,
    cases::{LONG, above, first_use, granted, name, not_granted, request, words},
};

pub(super) async fn enqueue(
    store: &dyn Backend,
    request: &Request,
) -> Result<Box<dyn Waiter>, String> {
    match store.enqueue(request).await.map_err(words)? {
        Enqueued::Waiting(waiter, _) => Ok(waiter),
        other => Err(format!("not to be waited for: {other:?}")),
    }
}

pub(super) async fn release(store: &dyn Backend, grant: &Grant) -> Verdict {
    store.release(grant, ReleaseOptions::default()).await.map(drop).map_err(words)
}

/// Takes a lock and releases it, so that its row stays. One release in a thousand sweeps it away.
pub(super) async fn used_once(store: &dyn Backend, request: &Request) -> Result<Grant, String> {
    loop {
        let grant = granted(store, request).await?;
        release(store, &grant).await?;
        if store.inspect(&request.name).await.map_err(words)?.is_some() {
            return Ok(grant);
        }
    }
}

async fn holder_is(store: &dyn Backend, owner: OwnerId) -> Verdict {
    let state = store.inspect(&name("a")).await.map_err(words)?;
    match state.and_then(|state| state.holder) {
        Some(holder) if holder.owner == owner => Ok(()),
        other => Err(format!("{owner} should hold it: {other:?}")),
    }
}

pub(super) async fn order_of_entries<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let (first, second) = (request("a", LONG), request("a", LONG));
    let _waiters = (enqueue(&*store, &first).await?, enqueue(&*store, &second).await?);
    release(&*store, &held).await?;
    holder_is(&*store, first.owner).await
}

/// `silence` makes the last heartbeat of the entry seem old.
pub(super) async fn a_dead_entry<S: Clients, T, E: Display>(
    setup: &S,
    silence: impl Future<Output = Result<T, E>>,
) -> Verdict {
    let store = first_use(setup).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let _waiter = enqueue(&*store, &request("a", LONG)).await?;
    silence.await.map_err(words)?;
    release(&*store, &held).await?;
    granted(&*store, &request("a", LONG)).await.map(drop)
}

pub(super) async fn an_entry_of_another<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let leaves = enqueue(&*store, &request("a", LONG)).await?;
    let _stays = enqueue(&*store, &request("a", LONG)).await?;
    leaves.leave().await.map_err(words)?;
    release(&*store, &held).await?;
    not_granted(&*store, &request("a", LONG)).await
}

pub(super) async fn an_entry_of_an_abandoned_owner<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let given_up = request("a", LONG);
    store.abandon(&given_up).await.map_err(words)?;
    let _waiter = enqueue(&*store, &given_up).await?;
    release(&*store, &held).await?;
    granted(&*store, &request("a", LONG)).await.map(drop)
}

pub(super) async fn an_entry_behind_itself<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let own = request("a", LONG);
    let held = granted(&*store, &own).await?;
    match store.enqueue(&own).await.map_err(words)? {
        Enqueued::Granted(again) if again.token == held.token => {}
        other => return Err(format!("not the same grant: {other:?}")),
    }
    release(&*store, &held).await?;
    granted(&*store, &request("a", LONG)).await.map(drop)
}

pub(super) async fn a_token_that_is_passed<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let waits = request("a", LONG);
    let _waiter = enqueue(&*store, &waits).await?;
    release(&*store, &held).await?;
    above(&held, &granted(&*store, &waits).await?)
}

pub(super) async fn an_abandoned_owner_that_a_release_carries<S: Clients>(setup: &S) -> Verdict {
    let store = first_use(setup).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let next = request("a", LONG);
    store.abandon(&next).await.map_err(words)?;
    let options = ReleaseOptions::new().with_next(&next);
    store.release(&held, options).await.map_err(words)?;
    granted(&*store, &request("a", LONG)).await.map(drop)
}
