//! Waiters in the queue.

use lock_core::{ReleaseOptions, Signal};
use sqlx::postgres::PgListener;

use super::{
    Clients as _, LONG, OnePostgres, Verdict, above, connect, first_use, granted, not_granted,
    request, words,
};
use conformance_tests::kit::Server as _;

use crate::broken::places::place;

pub(super) async fn a_place_for_a_held_name(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    granted(&*store, &request("a", LONG)).await?;
    place(&*store, &request("a", LONG)).await.map(drop)
}

/// The first has a floor, so that it is told to ask and does not.
pub(super) async fn a_second_place_for_a_free_name(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let mut first = request("a", LONG);
    first.floor = held.token;
    let _first = place(&*store, &first).await?;
    let second = request("a", LONG);
    let _second = place(&*store, &second).await?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    // However slow this machine is, it is still heard of.
    let keep = "UPDATE leasehold_locks SET alive = ARRAY[now() + interval '1 hour', now() + interval '1 hour']";
    stage.server.sql(keep).await.map_err(words)?;
    not_granted(&*store, &second).await
}

/// A place that is given the lock by the release, or one that `asks`, since whoever releases knows of no
/// floor. Without the message it is found by the poll behind it.
pub(super) async fn a_release_is_told(stage: &mut OnePostgres, asks: bool) -> Verdict {
    let store = first_use(stage).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let waiter = stage.open().await;
    let mut wanted = request("a", LONG);
    if asks {
        wanted.floor = held.token;
    }
    let mut turn = place(&*waiter, &wanted).await?;
    let channel = "SELECT 'leasehold_' || substr(waiters[1], 33, 32) FROM leasehold_locks";
    let channel = stage.server.sql(channel).await.map_err(words)?;
    let address = format!("postgres://postgres@{}/postgres", stage.server.address());
    let mut told = PgListener::connect(&address).await.map_err(words)?;
    told.listen(&channel).await.map_err(words)?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    // Whatever was sent before this comes before it.
    let end = format!("SELECT pg_notify('{channel}', 'end')");
    stage.server.sql(&end).await.map_err(words)?;
    let message = told.recv().await.map_err(words)?;
    if !message.payload().starts_with(&wanted.owner.to_string()) {
        return Err("nobody was told of the release".to_owned());
    }
    let signal = tokio::time::timeout(LONG, turn.next()).await.map_err(words)?;
    match signal {
        Signal::Recheck => above(&held, &granted(&*waiter, &wanted).await?),
        other => Err(format!("it was told {other:?}")),
    }
}

/// Of two places the first is given the lock, and nothing is told.
pub(super) async fn a_release_to_one_who_looks(stage: &mut OnePostgres) -> Verdict {
    let store = first_use(stage).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let waiter = connect(&(stage.url() + "&listen=off")).await.unwrap();
    let mut turn = place(&*waiter, &request("a", LONG)).await?;
    let _behind = place(&*waiter, &request("a", LONG)).await?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    // However slow this machine is, it is not taken away before the look.
    let keep = "UPDATE leasehold_locks SET expires_2 = expires_2 + interval '1 hour'";
    stage.server.sql(keep).await.map_err(words)?;
    match tokio::time::timeout(LONG, turn.next()).await {
        Ok(Signal::Recheck) => Ok(()),
        other => Err(format!("it looked, and saw {other:?}")),
    }
}
