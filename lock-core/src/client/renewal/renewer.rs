//! The renewer: one task per client.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream::FuturesUnordered};

use super::{
    batch::{renew, sort_out},
    schedule::look_again,
};
use crate::{
    LossReason,
    client::state::{Alarm, ClientState, Tick},
    env::BoxFuture,
};

/// The task. If it is dropped, all held locks are lost, and their guards say so.
pub(crate) fn make_renewer(state: Arc<ClientState>) -> BoxFuture {
    let ending = Ending(Some(Arc::clone(&state)));
    Box::pin(run(state, ending))
}

/// The end of the task against its will, by a panic or because its runtime was shut down: nobody
/// renews any more, so everything still held is lost, and says so.
struct Ending(Option<Arc<ClientState>>);

impl Ending {
    fn defuse(mut self) {
        self.0 = None;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(state) = self.0.take() else { return };
        let (detached, held) = state.renewer.end();
        for held in held {
            state.queues(held.grant.mode).forget_carry(&held.grant);
            state.end_lost(&held, LossReason::RuntimeEnded);
        }
        // Dropped outside the mutex: a call's own drop may come back here.
        drop(detached);
    }
}

async fn run(state: Arc<ClientState>, ending: Ending) {
    let state = &state;
    let mut calls = FuturesUnordered::<BoxFuture>::new();
    let mut alarm = Alarm::default();
    loop {
        let now = state.env.now();
        let Tick { due, detached, next, stopping } =
            state.renewer.tick(now, alarm.at(), look_again);
        calls.extend(detached);
        let renewals = sort_out(state, due, now);
        if !renewals.is_empty() {
            calls.push(Box::pin(renew(Arc::clone(state), renewals)));
        }
        if stopping && calls.is_empty() && next.is_none() {
            if state.renewer.ends_idle() {
                // From here on another task may run: its state is not this one's to end.
                return ending.defuse();
            }
            continue;
        }
        if let Some(next) = next {
            alarm.set(now, next, || state.env.sleep_until(next));
        }
        // In this order always: a simulation wants the same run again. Calls first, since a busy client
        // may be woken without a pause.
        tokio::select! {
            biased;
            Some(()) = calls.next(), if !calls.is_empty() => continue,
            () = state.renewer.wake.notified() => continue,
            () = alarm.ring() => {}
        }
    }
}
