//! Guards of the locks that readers share.

use std::time::Duration;

use conformance_tests::{
    kit::Change::{LeaveOut, Replace},
    missing_guards::{
        Verdict,
        cases::{LONG, first_use, granted, name, not_granted, request, words},
    },
    variants,
};
use lock_core::{
    Backend, Enqueued, Env as _, FencingToken, Mode, OwnerId, ReleaseOptions, Renewal, Request,
    SystemEnv,
};

use super::store::OneRedis;

variants! {
    pub(super) VARIANTS |stage: OneRedis|
    "S1: an owner that is not a reader does not hold the lock" Replace("member", "return true") => a_writer_beside_a_reader(stage);
    "S1: a writer that is first in the queue waits for the readers" LeaveOut("writer_first") => a_reader_past_a_writer(stage);
    "L3: no reader joins past a writer" Replace("join_entry", "crowded = false") => a_reader_past_a_writer(stage);
    "S1: a reader with a short lease does not shorten that of others" LeaveOut("join_shorter") => a_reader_with_a_short_lease(stage);
    "S2: the token of a reader that joins is above its floor"
        Replace("join_floor", "if token then return token end") => a_reader_with_a_floor(stage);
    "S5: a reader that left is no longer a reader" LeaveOut("leave") => a_renewal_of_a_reader_that_left(stage);
    "S4: only a reader renews" Replace("renew_reader", "other = false") => a_renewal_of_a_reader_that_left(stage);
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
