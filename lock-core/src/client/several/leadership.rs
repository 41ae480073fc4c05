//! Who leads, as other clients see it.

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
    tunables::LONGEST_SLICE,
};

/// Who leads, when the watch last looked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// The store did not say, for this reason.
    Unknown(String),
    /// Nobody leads.
    Vacant,
    /// A client leads: this one.
    Held(Leader),
}

/// A leader, as another client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The label of its client.
    pub label: OwnerLabel,
    /// The id of its acquisition.
    pub owner: OwnerId,
    /// Its fencing token.
    pub term: FencingToken,
    /// Since when this watch has seen it lead without a gap, by the wall clock of this machine.
    pub since: SystemTime,
}

/// Looks once in each `interval`.
pub(super) async fn look_again(
    handle: Weak<Handle>,
    name: LockName,
    interval: Duration,
    seen: watch::Sender<Leadership>,
) {
    let mut next = Instant::from_nanos(0);
    // The client is held for a look only, so that it can end meanwhile.
    while let Some(open) = handle.upgrade().filter(|handle| handle.check_open().is_ok()) {
        let env = Arc::clone(&open.env);
        let asked = env.now();
        if asked >= next {
            let now = look(&open, &name, interval).await;
            seen.send_if_modified(|last| is_news(last, now));
            // What is shown was so at `asked` or later: two intervals from there, the next answer is shown.
            next = asked + interval;
        }
        drop(open);
        let pause = env.sleep(next.since(env.now()).min(LONGEST_SLICE));
        if let Either::Right(_) = select(pause, pin!(seen.closed())).await {
            return;
        }
    }
}

/// Takes the answer over if it differs. For the same leader and term the first answer stays, with its `since`.
fn is_news(last: &mut Leadership, now: Leadership) -> bool {
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

async fn look(state: &ClientState, name: &LockName, limit: Duration) -> Leadership {
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
