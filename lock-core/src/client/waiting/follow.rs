//! A guard that this process was given: its release brings the next place.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::Carried;
use crate::{
    Instant,
    client::{held::Held, inner::Inner},
};

pub(super) struct Followed {
    held: Arc<Held>,
    /// What its release brings.
    pub(super) carried: oneshot::Receiver<Carried>,
    /// When to look whether it has ended: an answer may never come, as where the keeper's runtime stands
    /// still.
    pub(super) look_at: Instant,
    /// Whether it had ended at the last look.
    ended: bool,
}

impl Followed {
    pub(super) fn new(inner: &Inner, held: Arc<Held>, carried: oneshot::Receiver<Carried>) -> Self {
        let look_at = inner.env.now() + held.grant.lease;
        Self { held, carried, look_at, ended: false }
    }

    /// Looks: an answer is waited for no longer where the guard had ended at the look before, since its
    /// release has then had a lease's time.
    pub(super) fn is_over(&mut self, inner: &Arc<Inner>) -> bool {
        if !self.ended {
            self.ended = !inner.check(&self.held);
            self.look_at = inner.env.now() + self.held.grant.lease;
            return false;
        }
        true
    }

    /// An answer that is already here is a place or a grant to give up; a later one finds nobody, and
    /// whoever brings it does the same.
    pub(super) async fn give_up(mut self, inner: &Arc<Inner>) {
        self.carried.close();
        if let Ok(carried) = self.carried.try_recv() {
            carried.clean_up(inner).await;
        }
    }
}
