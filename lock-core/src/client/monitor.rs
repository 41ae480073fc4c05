//! A view of a held lock that does not own it.

use std::{fmt, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    calls::{check, remaining},
    guard::{Guard, wait_for_loss},
    state::{ClientState, Held},
};
use crate::{FencingToken, LossReason};

/// A view of a held lock: it neither keeps nor releases it. Cheap to clone.
#[derive(Clone)]
pub struct Monitor {
    state: Arc<ClientState>,
    held: Arc<Held>,
}

impl Guard {
    /// A view of this lock for tasks that work under it.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor { state: self.state(), held: Arc::clone(self.held()) }
    }
}

impl Monitor {
    pub(super) fn state(&self) -> &Arc<ClientState> {
        &self.state
    }

    pub(super) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// The fencing token.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.held.grant.token
    }

    /// Whether the lock may still be relied on.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        check(&self.state, &self.held)
    }

    /// How long it may be relied on without another renewal.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        remaining(&self.state, &self.held)
    }

    /// Waits until the lock is lost, and returns the reason; never ends if it is released.
    pub async fn lost(&self) -> LossReason {
        wait_for_loss(&self.state, &self.held).await
    }

    /// A token that is cancelled when the lock is lost.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.held.cancellation()
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").field("token", &self.token()).finish_non_exhaustive()
    }
}
