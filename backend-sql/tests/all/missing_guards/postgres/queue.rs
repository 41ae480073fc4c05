//! Waiters in the queue.

use backend_sql::postgres::connect;
use lock_core::{ReleaseOptions, Signal};
use servers::Server as _;
use sqlx::postgres::PgListener;
use verification::missing_guards::{
    Verdict,
    cases::{LONG, above, check, enqueue, first_use, granted, not_granted, request, words},
};

use super::{Clients as _, Database as _, OnePostgres};

/// A dead entry at the head makes the client send an attempt, and not only a plain append.
pub(super) async fn an_entry_for_a_held_name(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    granted(&*store, &request("a", LONG)).await?;
    let dead = "UPDATE leasehold_locks SET waiters = ARRAY[repeat('b', 64) || '+'], \
                alive = ARRAY[now() - interval '1 hour']";
    stage.sql(dead).await?;
    enqueue(&*store, &request("a", LONG)).await.map(drop)
}

/// The first entry has a floor, so it must ask for the lock itself, and does not.
pub(super) async fn a_second_entry_for_a_free_name(stage: &OnePostgres) -> Verdict {
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
    stage.sql(keep).await?;
    not_granted(&*store, &second).await
}

/// The release grants the lock to the entry, or notifies an entry that is asking for the lock
/// itself because it has a floor.
pub(super) async fn a_release_notifies(stage: &OnePostgres, whom: &str) -> Verdict {
    let store = first_use(stage).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let other = stage.open().await;
    let mut wanted = request("a", LONG);
    if whom == "asking" {
        wanted.floor = held.token;
    }
    let mut waiter = enqueue(&*other, &wanted).await?;
    let channel = "SELECT 'leasehold_' || substr(waiters[1], 33, 32) FROM leasehold_locks";
    let channel = stage.sql(channel).await?;
    let address = format!("postgres://postgres@{}/postgres", stage.server.address());
    let mut listener = PgListener::connect(&address).await.map_err(words)?;
    listener.listen(&channel).await.map_err(words)?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    // Messages arrive in the order in which they were sent.
    let end = format!("SELECT pg_notify('{channel}', 'end')");
    stage.sql(&end).await?;
    let message = listener.recv().await.map_err(words)?;
    let told = message.payload().starts_with(&wanted.owner.to_string());
    check(told, || "nobody was notified of the release".to_owned())?;
    let signal = tokio::time::timeout(LONG, waiter.next()).await.map_err(words)?;
    match signal {
        Signal::Recheck => above(&held, &granted(&*other, &wanted).await?),
        other => Err(format!("it was notified of {other:?}")),
    }
}

/// The first of two entries is granted the lock, and its client gets no message.
pub(super) async fn a_release_to_a_waiter_that_polls(stage: &OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let other = connect(&(stage.url() + "&listen=off")).await.unwrap();
    let mut waiter = enqueue(&*other, &request("a", LONG)).await?;
    let _behind = enqueue(&*other, &request("a", LONG)).await?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    // The grant does not expire before the check, however slow this machine is.
    let keep = "UPDATE leasehold_locks SET expires = expires + interval '1 hour'";
    stage.sql(keep).await?;
    let saw = tokio::time::timeout(LONG, waiter.next()).await;
    check(matches!(saw, Ok(Signal::Recheck)), || format!("it checked, and saw {saw:?}"))
}
