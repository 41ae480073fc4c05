//! Waiters in the queue.

use lock_core::{ReleaseOptions, Signal};
use sqlx::postgres::PgListener;

use super::{
    Clients as _, LONG, OnePostgres, Verdict, above, connect, first_use, granted, not_granted,
    request, words,
};
use servers::Server as _;

use crate::missing_guards::entries::enqueue;

/// A dead entry at the head makes the client send an attempt, and not only a plain append.
pub(super) async fn an_entry_for_a_held_name(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    granted(&*store, &request("a", LONG)).await?;
    let dead = "UPDATE leasehold_locks SET waiters = ARRAY[repeat('b', 64) || '+'], \
                alive = ARRAY[now() - interval '1 hour']";
    stage.server.sql(dead).await.map_err(words)?;
    enqueue(&*store, &request("a", LONG)).await.map(drop)
}

/// The first entry has a floor, so it must ask for the lock itself, and does not.
pub(super) async fn a_second_entry_for_a_free_name(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let mut first = request("a", LONG);
    first.floor = held.token;
    let _first = enqueue(&*store, &first).await?;
    let second = request("a", LONG);
    let _second = enqueue(&*store, &second).await?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    // The entries stay alive, however slow this machine is.
    let keep = "UPDATE leasehold_locks SET alive = ARRAY[now() + interval '1 hour', now() + interval '1 hour']";
    stage.server.sql(keep).await.map_err(words)?;
    not_granted(&*store, &second).await
}

/// The release grants the lock to the entry, or notifies an entry that `asks` for the lock itself
/// because it has a floor.
pub(super) async fn a_release_notifies(stage: &mut OnePostgres, asks: bool) -> Verdict {
    let store = first_use(stage).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let other = stage.open().await;
    let mut wanted = request("a", LONG);
    if asks {
        wanted.floor = held.token;
    }
    let mut waiter = enqueue(&*other, &wanted).await?;
    let channel = "SELECT 'leasehold_' || substr(waiters[1], 33, 32) FROM leasehold_locks";
    let channel = stage.server.sql(channel).await.map_err(words)?;
    let address = format!("postgres://postgres@{}/postgres", stage.server.address());
    let mut listener = PgListener::connect(&address).await.map_err(words)?;
    listener.listen(&channel).await.map_err(words)?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    // Messages arrive in the order in which they were sent.
    let end = format!("SELECT pg_notify('{channel}', 'end')");
    stage.server.sql(&end).await.map_err(words)?;
    let message = listener.recv().await.map_err(words)?;
    if !message.payload().starts_with(&wanted.owner.to_string()) {
        return Err("nobody was notified of the release".to_owned());
    }
    let signal = tokio::time::timeout(LONG, waiter.next()).await.map_err(words)?;
    match signal {
        Signal::Recheck => above(&held, &granted(&*other, &wanted).await?),
        other => Err(format!("it was notified of {other:?}")),
    }
}

/// The first of two entries is granted the lock, and its client gets no message.
pub(super) async fn a_release_to_a_waiter_that_polls(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let other = connect(&(stage.url() + "&listen=off")).await.unwrap();
    let mut waiter = enqueue(&*other, &request("a", LONG)).await?;
    let _behind = enqueue(&*other, &request("a", LONG)).await?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    // The grant does not expire before the check, however slow this machine is.
    let keep = "UPDATE leasehold_locks SET expires = expires + interval '1 hour'";
    stage.server.sql(keep).await.map_err(words)?;
    match tokio::time::timeout(LONG, waiter.next()).await {
        Ok(Signal::Recheck) => Ok(()),
        other => Err(format!("it checked, and saw {other:?}")),
    }
}
