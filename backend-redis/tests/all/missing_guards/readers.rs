//! Guards of the locks that readers share.

use std::{sync::Arc, time::Duration};

use lock_core::{Backend, Env as _, Grant, OwnerId, ReleaseOptions, Renewal, SystemEnv};
use verification::missing_guards::{
    Clients as _, Verdict,
    cases::{LONG, check, enqueue, first_use, granted, name, not_granted, reader, request, words},
};

use super::server::Server;

/// The number of readers that the store reports.
async fn inside(store: &dyn Backend, expected: u64) -> Verdict {
    let state = store.inspect(&name("a")).await.map_err(words)?.ok_or("nobody is inside")?;
    let shared = state.holder.as_ref().is_some_and(|holder| holder.owner == OwnerId::READERS);
    check(shared && state.readers == Some(expected), || format!("not {expected}: {state:?}"))
}

pub(super) async fn a_reader_past_a_writer(server: &Server) -> Verdict {
    let store = first_use(server).await;
    granted(&*store, &reader(LONG)).await?;
    let _turn = enqueue(&*store, &request("a", LONG)).await?;
    not_granted(&*store, &reader(LONG)).await?;
    inside(&*store, 1).await
}

/// One of these grants has a short lease, and a short while later only that one is over.
const SHORT: Duration = Duration::from_secs(8);

async fn short_and_long(server: &Server) -> Result<(Arc<dyn Backend>, Grant, Grant), String> {
    let store = first_use(server).await;
    let short = granted(&*store, &reader(SHORT)).await?;
    let long = granted(&*store, &reader(LONG)).await?;
    Ok((store, short, long))
}

/// The short lease ends. The answer is a new client, whose attempts are not late by the new clock.
async fn later(server: &Server) -> Result<Arc<dyn Backend>, String> {
    server.clock.step(SHORT.as_secs_f64() + 1.0).map_err(words)?;
    Ok(server.open().await)
}

async fn renewed(store: &dyn Backend, grant: &Grant) -> bool {
    let answer = store.renew(&[grant], SystemEnv.now()).await.pop();
    matches!(answer, Some(Renewal::Renewed { .. }))
}

pub(super) async fn a_reader_whose_lease_is_prolonged(server: &Server, how: &str) -> Verdict {
    let store = first_use(server).await;
    let mut asked = reader(SHORT);
    let mut grant = granted(&*store, &asked).await?;
    granted(&*store, &reader(LONG)).await?;
    (asked.lease, grant.lease) = (LONG, LONG);
    match how {
        "repeat" => drop(granted(&*store, &asked).await?),
        _ => assert!(renewed(&*store, &grant).await),
    }
    let lives = renewed(&*later(server).await?, &grant).await;
    check(lives, || "its lease is over, although it was prolonged".to_owned())
}

pub(super) async fn a_renewal_after_the_end(server: &Server) -> Verdict {
    let (_, short, long) = short_and_long(server).await?;
    let store = later(server).await?;
    assert!(renewed(&*store, &long).await);
    check(!renewed(&*store, &short).await, || "a lease was renewed after its end".to_owned())
}

pub(super) async fn a_reader_that_died(server: &Server) -> Verdict {
    short_and_long(server).await?;
    let store = later(server).await?;
    not_granted(&*store, &request("a", LONG)).await?;
    inside(&*store, 1).await?;
    granted(&*store, &reader(LONG)).await?;
    inside(&*store, 2).await
}

pub(super) async fn a_long_lease_that_left(server: &Server) -> Verdict {
    let (store, _, long) = short_and_long(server).await?;
    store.release(&long, ReleaseOptions::default()).await.map_err(words)?;
    // Heartbeats of a writer in the queue rely on the expiry of the key.
    let left = verification::missing_guards::cases::left(&*store).await?;
    check(left <= SHORT, || format!("{left:?} is longer than the lease that is left"))
}

/// Nobody sends heartbeats: the reader that waits would get in with its own next attempt.
pub(super) async fn a_reader_behind_a_dead_writer(server: &mut Server) -> Verdict {
    let (store, _, long) = short_and_long(server).await?;
    let writer = request("a", LONG);
    let _dead = enqueue(&*store, &writer).await?;
    let _turn = enqueue(&*store, &reader(LONG)).await?;
    // As if the writer's heartbeats had ended long ago.
    let entries = server.key("entries", "a");
    server.say(&["HDEL", &entries, &writer.owner.to_string()]).await;
    store.release(&long, ReleaseOptions::default()).await.map_err(words)?;
    inside(&*store, 2).await
}
