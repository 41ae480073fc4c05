//! The renewer: one task per client.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::runtime::Id;

use super::{
    batch::{renew, select_renewals},
    schedule::due_again,
};
use crate::{
    LossReason,
    client::state::{Alarm, ClientState, Tick},
    env::BoxFuture,
};

/// Makes the task for the caller's runtime. If that runtime ends, the task goes on at another one
/// on which a lock was acquired. If there is none, all held locks are lost, and their guards report
/// it.
pub(crate) fn make_renewer(state: Arc<ClientState>) -> BoxFuture {
    let runtimes = state.env.runtime().iter().map(|runtime| runtime.id()).collect();
    Box::pin(run(Arc::clone(&state), Ending { state: Some(state), runtimes }))
}

/// Moves the task to another runtime if it is dropped, by a panic or with its runtime. If there is
/// none, ends all held locks: nobody renews them any more.
struct Ending {
    /// `None` if the task has ended because it had no work.
    state: Option<Arc<ClientState>>,
    /// The runtime of the task, and those on which it has ended before.
    runtimes: Vec<Id>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(state) = self.state.take() else { return };
        let mut runtimes = std::mem::take(&mut self.runtimes);
        match state.renewer.end_or_move(&runtimes) {
            Ok(runtime) => {
                runtimes.push(runtime.id());
                let ending = Self { state: Some(Arc::clone(&state)), runtimes };
                let task: BoxFuture = Box::pin(run(state, ending));
                // If this runtime has ended, too, the task is dropped at once, and tries the next.
                drop(runtime.spawn(task));
            }
            Err((detached, held)) => {
                for held in held {
                    state.queues(held.grant.mode).forget_carry(&held.grant);
                    state.end_lost(&held, LossReason::RuntimeEnded);
                }
                // Dropped outside the mutex, because the drop of a call may lock it.
                drop(detached);
            }
        }
    }
}

async fn run(state: Arc<ClientState>, mut ending: Ending) {
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
                ending.state = None;
                return;
            }
            continue;
        }
        if let Some(next) = next {
            alarm.set(now, next, || state.env.sleep_until(next));
        }
        // Always in this order, so that a simulation is reproducible. Calls first, because a busy
        // client may be woken all the time.
        tokio::select! {
            biased;
            Some(()) = calls.next(), if !calls.is_empty() => continue,
            () = state.renewer.wake.notified() => continue,
            () = alarm.ring() => {}
        }
    }
}
