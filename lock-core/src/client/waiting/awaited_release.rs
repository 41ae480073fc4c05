//! The wait for the release of a lock that this process holds. The release carries this process's
//! next request.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::{
    Instant,
    client::{
        calls::{check, clean_up_carried},
        state::{Carried, ClientState, Held},
    },
};

pub(super) struct AwaitedRelease {
    held: Arc<Held>,
    /// The carried request and its answer.
    pub(super) carried: oneshot::Receiver<Carried>,
    /// When to check whether the lock has ended. The answer may never come, for example if the
    /// renewer's runtime has stalled.
    pub(super) next_check: Instant,
    /// Whether the lock had ended at the last check.
    ended: bool,
}

impl AwaitedRelease {
    pub(super) fn new(
        state: &ClientState,
        held: Arc<Held>,
        carried: oneshot::Receiver<Carried>,
    ) -> Self {
        let next_check = state.env.now() + held.grant.lease;
        Self { held, carried, next_check, ended: false }
    }

    /// Checks whether to stop waiting for the answer: if the lock had already ended at the check
    /// before, its release has had the time of a whole lease.
    pub(super) fn is_overdue(&mut self, state: &Arc<ClientState>) -> bool {
        if !self.ended {
            self.ended = !check(state, &self.held);
            self.next_check = state.env.now() + self.held.grant.lease;
            return false;
        }
        true
    }

    /// Stops waiting. Cleans up an answer that is already here. A release that brings a later
    /// answer finds the channel closed, and cleans up itself.
    pub(super) async fn give_up(mut self, state: &Arc<ClientState>) {
        self.carried.close();
        if let Ok(carried) = self.carried.try_recv() {
            clean_up_carried(state, carried).await;
        }
    }
}
