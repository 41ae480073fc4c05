//! A view of a held lock, for tasks that work under it.

use std::{fmt, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    calls::{check, remaining},
    guard::{Guard, wait_for_loss},
    state::{ClientState, Held},
};
use crate::{FencingToken, LossReason};

/// A view of a held lock, made by [`Guard::monitor`]. It neither keeps nor releases the lock. Cheap
/// to clone.
#[derive(Clone)]
pub struct Monitor {
    state: Arc<ClientState>,
    held: Arc<Held>,
}

impl Guard {
    /// Makes a view of this lock for tasks that work under it.
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

    /// As [`Guard::token`].
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.held.grant.token
    }

    /// As [`Guard::is_valid`].
    #[must_use]
    pub fn is_valid(&self) -> bool {
        check(&self.state, &self.held)
    }

    /// As [`Guard::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        remaining(&self.state, &self.held)
    }

    /// As [`Guard::lost`]. It never ends if the lock is released.
    pub async fn lost(&self) -> LossReason {
        wait_for_loss(&self.state, &self.held).await
    }

    /// As [`Guard::cancellation_token`].
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
