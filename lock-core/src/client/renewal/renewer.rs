//! The renewer: one task per client.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream::FuturesUnordered};

use super::{
    batch::{renew, select_renewals},
    schedule::due_again,
};
use crate::{
    LossReason,
    client::state::{Alarm, ClientState, Tick},
    env::BoxFuture,
};

/// Makes the task. If it is dropped, all held locks are lost, and their guards report it.
pub(crate) fn make_renewer(state: Arc<ClientState>) -> BoxFuture {
    let ending = Ending(Some(Arc::clone(&state)));
    Box::pin(run(state, ending))
}

/// Ends all held locks if the task is dropped, by a panic or with its runtime: nobody renews them any more.
struct Ending(Option<Arc<ClientState>>);

impl Ending {
    fn defuse(mut self) {
        self.0 = None;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(state) = self.0.take() else { return };
        let (detached, held) = state.renewer.take_all();
        for held in held {
            state.queues(held.grant.mode).forget_carry(&held.grant);
            state.end_lost(&held, LossReason::RuntimeEnded);
        }
        // Dropped outside the mutex, because the drop of a call may lock it.
        drop(detached);
    }
}

async fn run(state: Arc<ClientState>, ending: Ending) {
    let state = &state;
    let mut calls = FuturesUnordered::<BoxFuture>::new();
    let mut alarm = Alarm::default();
    loop {
        let now = state.env.now();
        let Tick { due, detached, next, stopping } = state.renewer.tick(now, alarm.at(), due_again);
        calls.extend(detached);
        let renewals = select_renewals(state, due, now);
        if !renewals.is_empty() {
            calls.push(Box::pin(renew(Arc::clone(state), renewals)));
        }
        if stopping && calls.is_empty() && next.is_none() {
            if state.renewer.end_if_idle() {
                // Another task may run from here on. This task must not end its locks.
                return ending.defuse();
            }
            continue;
        }
        if let Some(next) = next {
            alarm.set(now, next, || state.env.sleep_until(next));
        }
        // Always in this order, so that a simulation is reproducible. Calls first, because a busy client may be woken all the
        // time.
        tokio::select! {
            biased;
            Some(()) = calls.next(), if !calls.is_empty() => continue,
            () = state.renewer.wake.notified() => continue,
            () = alarm.ring() => {}
        }
    }
}
