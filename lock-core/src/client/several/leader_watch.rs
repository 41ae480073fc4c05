//! The watch of an election: who leads, as other clients see it.

use std::{
    pin::pin,
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use futures_util::future::{Either, select};
use tokio::sync::watch;

use super::until;
use crate::{
    FencingToken, Instant, LockName, OwnerId, OwnerLabel,
    client::state::{ClientState, Handle},
    tunables::CLOCK_CHECK,
};

/// Who led when the watch last read the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// Unknown, for this reason: the watch has no answer of the store.
    Unknown(String),
    /// Nobody leads.
    Vacant,
    /// This client leads.
    Held(Leader),
}

/// A leader, as another client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The label of the leader's client.
    pub label: OwnerLabel,
    /// The leader's owner id.
    pub owner: OwnerId,
    /// The leader's fencing token.
    pub term: FencingToken,
    /// Since when this watch has seen this leader in this term without a gap, by the wall clock of
    /// this machine. A read without an answer is a gap.
    pub since: SystemTime,
}

/// Reads the store once in each `interval`, and sends what has changed to `seen`.
pub(super) async fn watch_leader(
    handle: Weak<Handle>,
    name: LockName,
    interval: Duration,
    seen: watch::Sender<Leadership>,
) {
    let mut next = Instant::from_nanos(0);
    // The watch holds the client only while it reads, so that the client can end between two reads.
    while let Some(open) = handle.upgrade().filter(|handle| handle.check_open().is_ok()) {
        let env = Arc::clone(&open.env);
        let asked = env.now();
        if asked >= next {
            let now = read_leader(&open, &name, interval).await;
            seen.send_if_modified(|last| update(last, now));
            // What is shown was true at `asked` or later. Two intervals later the next answer is
            // shown.
            next = asked + interval;
        }
        drop(open);
        let pause = env.sleep(next.since(env.now()).min(CLOCK_CHECK));
        if let Either::Right(_) = select(pause, pin!(seen.closed())).await {
            return;
        }
    }
}

/// Replaces `last` if the leader or the term has changed. Otherwise the first answer stays, with
/// its `since`.
fn update(last: &mut Leadership, now: Leadership) -> bool {
    let same = match (&*last, &now) {
        (Leadership::Held(before), Leadership::Held(now)) => {
            (before.owner, before.term) == (now.owner, now.term)
        }
        (before, now) => before == now,
    };
    if !same {
        *last = now;
    }
    !same
}

async fn read_leader(state: &ClientState, name: &LockName, limit: Duration) -> Leadership {
    let limit = limit.min(state.options.call_timeout);
    let end = Some(state.env.now() + limit);
    let Some(found) = until(&*state.env, end, state.backend.inspect(name)).await else {
        let limit = humantime::format_duration(limit);
        return Leadership::Unknown(format!("the store did not answer within {limit}"));
    };
    match found {
        Ok(Some(lock)) if !lock.kept => match lock.holder {
            Some(holder) => Leadership::Held(Leader {
                label: holder.label,
                owner: holder.owner,
                term: lock.token,
                since: SystemTime::UNIX_EPOCH + Duration::from_micros(state.env.wall_micros()),
            }),
            None => Leadership::Vacant,
        },
        Ok(_) => Leadership::Vacant,
        Err(error) => Leadership::Unknown(error.to_string()),
    }
}
