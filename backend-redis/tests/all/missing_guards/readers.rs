//! Guards of the locks that readers share.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Backend, Enqueued, Env as _, FencingToken, Grant, Mode, OwnerId, ReleaseOptions, Renewal,
    Request, SystemEnv,
};
use servers::Change::{LeaveOut, Replace};
use verification::missing_guards::{
    Clients as _, Verdict,
    cases::{LONG, first_use, granted, name, not_granted, request, words},
};
use verification::variants;

use super::store::OneRedis;

variants! {
    pub(super) VARIANTS |stage: OneRedis|
    "S1: an owner that is not a reader does not hold the lock" Replace("member", "return true") => a_writer_beside_a_reader(stage);
    "S1: a writer that is first in the queue waits for the readers" LeaveOut("writer_first") => a_reader_past_a_writer(stage);
    "L3: no reader joins past a writer" Replace("join_entry", "crowded = false") => a_reader_past_a_writer(stage);
    "S1: a reader with a short lease does not shorten that of others" LeaveOut("join_shorter") => a_reader_with_a_short_lease(stage);
    "S2: the token of a reader that joins is above its floor"
        Replace("join_floor", "if token then") => a_reader_with_a_floor(stage);
    "S5: a reader that left is no longer a reader" LeaveOut("leave") => a_renewal_of_a_reader_that_left(stage);
    "S3: a repeat by a reader prolongs its own lease"
        LeaveOut("repeat_reader") => a_reader_whose_lease_is_prolonged(stage, Prolonged::Repeat);
    "S3: a renewal by a reader prolongs its own lease"
        LeaveOut("renew_end") => a_reader_whose_lease_is_prolonged(stage, Prolonged::Renewal);
    "S5: a reader whose lease is over renews nothing, also beside other readers"
        LeaveOut("renew_ended") => a_renewal_after_the_end(stage);
    "L1: a reader whose lease is over is removed" Replace("reader_ended", "local over = false") => a_reader_that_died(stage);
    "L1: the lock ends with the leases of the readers that have not left"
        Replace("leave_end", "local left = math.max(1, redis.call('PTTL', KEYS[2]))") => a_long_lease_that_left(stage);
    "L2: a reader that leaves may let a waiting one in"
        Replace("beside_readers", "passed = not record") => a_reader_behind_a_dead_writer(stage);
    "S4: only a reader renews" Replace("renew_reader", "local at = line and (string.find(record, owner, line, true) or line + 1)")
        => a_renewal_of_a_reader_that_left(stage);
}

fn reader(lease: Duration) -> Request {
    request("a", lease).with_mode(Mode::Shared)
}

/// The number of readers that the store reports.
async fn inside(store: &dyn Backend) -> Result<Option<u64>, String> {
    let state = store.inspect(&name("a")).await.map_err(words)?;
    let shared = |state: &lock_core::LockState| {
        state.holder.as_ref().is_some_and(|holder| holder.owner == OwnerId::READERS)
    };
    Ok(state.filter(shared).and_then(|state| state.readers))
}

async fn a_writer_beside_a_reader(setup: &mut OneRedis) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &reader(LONG)).await?;
    not_granted(&*store, &request("a", LONG)).await
}

async fn a_reader_past_a_writer(setup: &mut OneRedis) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &reader(LONG)).await?;
    let writer = store.enqueue(&request("a", LONG)).await.map_err(words)?;
    let Enqueued::Waiting(_turn, _) = writer else { return Err(format!("{writer:?}")) };
    not_granted(&*store, &reader(LONG)).await?;
    match inside(&*store).await? {
        Some(1) => Ok(()),
        other => Err(format!("not the reader that was there: {other:?}")),
    }
}

async fn a_reader_with_a_short_lease(setup: &mut OneRedis) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &reader(LONG)).await?;
    granted(&*store, &reader(Duration::from_millis(200))).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    not_granted(&*store, &request("a", LONG)).await
}

async fn a_reader_with_a_floor(setup: &mut OneRedis) -> Verdict {
    let store = first_use(setup).await;
    let first = granted(&*store, &reader(LONG)).await?;
    let mut second = reader(LONG);
    second.floor = FencingToken::new(first.token.get() + 1_000_000).unwrap();
    let second_grant = granted(&*store, &second).await?;
    if second_grant.token <= second.floor {
        return Err(format!("{} is not above the floor", second_grant.token));
    }
    let third = granted(&*store, &reader(LONG)).await?;
    match third.token == second_grant.token {
        true => Ok(()),
        false => Err("readers that share have two tokens".to_owned()),
    }
}

async fn a_renewal_of_a_reader_that_left(setup: &mut OneRedis) -> Verdict {
    let store = first_use(setup).await;
    let gone = granted(&*store, &reader(LONG)).await?;
    let left = granted(&*store, &reader(LONG)).await?;
    store.release(&gone, ReleaseOptions::default()).await.map_err(words)?;
    let answers = store.renew(&[&gone, &left], SystemEnv.now()).await;
    match (&answers[..], inside(&*store).await?) {
        ([Renewal::Lost(_), Renewal::Renewed { .. }], Some(1)) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// One of these grants has a short lease, and a short while later only that one is over.
const SHORT: Duration = Duration::from_secs(8);

async fn short_and_long(setup: &OneRedis) -> Result<(Arc<dyn Backend>, Grant, Grant), String> {
    let store = first_use(setup).await;
    let short = granted(&*store, &reader(SHORT)).await?;
    let long = granted(&*store, &reader(LONG)).await?;
    Ok((store, short, long))
}

/// The short lease ends. The answer is a new client, whose attempts are not late by the new clock.
async fn later(setup: &OneRedis) -> Result<Arc<dyn Backend>, String> {
    setup.clock().step(SHORT.as_secs_f64() + 1.0).map_err(words)?;
    Ok(setup.open().await)
}

async fn renewed(store: &dyn Backend, grant: &Grant) -> bool {
    let answer = store.renew(&[grant], SystemEnv.now()).await.pop();
    matches!(answer, Some(Renewal::Renewed { .. }))
}

enum Prolonged {
    Repeat,
    Renewal,
}

async fn a_reader_whose_lease_is_prolonged(setup: &mut OneRedis, how: Prolonged) -> Verdict {
    let store = first_use(setup).await;
    let mut asked = reader(SHORT);
    let mut grant = granted(&*store, &asked).await?;
    granted(&*store, &reader(LONG)).await?;
    (asked.lease, grant.lease) = (LONG, LONG);
    match how {
        Prolonged::Repeat => drop(granted(&*store, &asked).await?),
        Prolonged::Renewal => assert!(renewed(&*store, &grant).await),
    }
    let store = later(setup).await?;
    match renewed(&*store, &grant).await {
        true => Ok(()),
        false => Err("its lease is over, although it was prolonged".to_owned()),
    }
}

async fn a_renewal_after_the_end(setup: &mut OneRedis) -> Verdict {
    let (_, short, long) = short_and_long(setup).await?;
    let store = later(setup).await?;
    assert!(renewed(&*store, &long).await);
    match renewed(&*store, &short).await {
        false => Ok(()),
        true => Err("a lease was renewed after its end".to_owned()),
    }
}

async fn a_reader_that_died(setup: &mut OneRedis) -> Verdict {
    let (_, _, _) = short_and_long(setup).await?;
    let store = later(setup).await?;
    match inside(&*store).await? {
        Some(1) => {}
        other => return Err(format!("the dead reader is still counted: {other:?}")),
    }
    granted(&*store, &reader(LONG)).await?;
    match inside(&*store).await? {
        Some(2) => Ok(()),
        other => Err(format!("not the two that live: {other:?}")),
    }
}

async fn a_long_lease_that_left(setup: &mut OneRedis) -> Verdict {
    let (store, _, long) = short_and_long(setup).await?;
    store.release(&long, ReleaseOptions::default()).await.map_err(words)?;
    // Heartbeats of a writer in the queue rely on the expiry of the key.
    let state = store.inspect(&name("a")).await.map_err(words)?;
    match state.and_then(|state| state.holder) {
        Some(holder) if holder.remaining <= SHORT => Ok(()),
        other => Err(format!("it lasts longer than the lease that is left: {other:?}")),
    }
}

/// Nobody sends heartbeats: the reader that waits would get in with its own next attempt.
async fn a_reader_behind_a_dead_writer(setup: &mut OneRedis) -> Verdict {
    let (store, _, long) = short_and_long(setup).await?;
    let waiting = |request| {
        let store = &store;
        async move {
            match store.enqueue(request).await {
                Ok(Enqueued::Waiting(turn, _)) => Ok(turn),
                other => Err(format!("no queue entry: {other:?}")),
            }
        }
    };
    let (writer, next) = (request("a", LONG), reader(LONG));
    let _dead = waiting(&writer).await?;
    let _turn = waiting(&next).await?;
    // As if the writer's heartbeats had ended long ago.
    let entries = "leasehold:{0}:entries:a";
    let gone = setup.server().cli(&["HDEL", entries, &writer.owner.to_string()]).await;
    assert_eq!(gone.map_err(words)?, "1");
    store.release(&long, ReleaseOptions::default()).await.map_err(words)?;
    match inside(&*store).await? {
        Some(2) => Ok(()),
        other => Err(format!("the waiting reader was not let in: {other:?}")),
    }
}
