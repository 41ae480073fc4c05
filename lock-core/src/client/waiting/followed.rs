//! The guard that this process was granted last: its release brings the next place in the queue.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::{
    Instant,
    client::{
        calls::{check, clean_up_carried},
        state::{Carried, ClientState, Held},
    },
};

pub(super) struct Followed {
    held: Arc<Held>,
    /// What its release brings.
    pub(super) carried: oneshot::Receiver<Carried>,
    /// When to look whether it has ended: an answer may never come, as where the renewer's runtime stands
    /// still.
    pub(super) look_at: Instant,
    /// Whether it had ended at the last look.
    ended: bool,
}

impl Followed {
    pub(super) fn new(
        state: &ClientState,
        held: Arc<Held>,
        carried: oneshot::Receiver<Carried>,
    ) -> Self {
        let look_at = state.env.now() + held.grant.lease;
        Self { held, carried, look_at, ended: false }
    }

    /// Looks: an answer is waited for no longer where the guard had ended at the look before, since its
    /// release has then had a lease's time.
    pub(super) fn is_over(&mut self, state: &Arc<ClientState>) -> bool {
        if !self.ended {
            self.ended = !check(state, &self.held);
            self.look_at = state.env.now() + self.held.grant.lease;
            return false;
        }
        true
    }

    /// Gives up the place or the grant of an answer that is already here. The release that brings a later answer
    /// finds nobody, and does the same.
    pub(super) async fn give_up(mut self, state: &Arc<ClientState>) {
        self.carried.close();
        if let Ok(carried) = self.carried.try_recv() {
            clean_up_carried(state, carried).await;
        }
    }
}
