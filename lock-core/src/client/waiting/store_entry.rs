//! This process's entry in the store's queue, and the request that it stands for.

use std::sync::Arc;

use crate::{
    Busy, Grant, Instant, Request, Waiter,
    client::{
        calls,
        state::{ClientState, validity},
    },
    tunables::SHORTEST_POLL_PAUSE,
};

/// The request of one queue entry, from its first try to its grant or withdrawal.
pub(super) struct QueueRequest {
    pub(super) request: Request,
    /// Whether a try had no answer. The store may then carry it out late, even after the grant was
    /// released.
    pub(super) doubtful: bool,
}

/// An entry in the store's queue.
pub(super) struct StoreEntry {
    pub(super) waiter: Box<dyn Waiter>,
    pub(super) queued: QueueRequest,
    /// The last `Busy` answer. A push with a token that is not larger is stale.
    last_busy: Busy,
    /// An instant before the attempt with that answer. The validity of a push counts from it.
    last_busy_sent: Instant,
    pub(super) poll_at: Instant,
}

impl StoreEntry {
    /// An entry whose request was answered `busy` just now.
    pub(super) fn new(
        waiter: Box<dyn Waiter>,
        queued: QueueRequest,
        busy: Busy,
        now: Instant,
    ) -> Self {
        let (last_busy_sent, poll_at) = (queued.request.sent, poll_after(&busy, now));
        Self { waiter, queued, last_busy: busy, last_busy_sent, poll_at }
    }

    /// The last try of the request was answered `busy` just now.
    pub(super) fn was_busy(&mut self, busy: Busy, now: Instant) {
        self.last_busy_sent = self.queued.request.sent;
        self.poll_at = poll_after(&busy, now);
        self.last_busy = busy;
    }

    /// A pushed grant as far as the client may rely on it (S3); `None` if an attempt must confirm
    /// it first. It is stale if its token is not above that of the last `Busy`. Its validity counts
    /// from before the attempt with that answer.
    pub(super) fn usable(&self, mut grant: Grant, now: Instant) -> Option<Grant> {
        if grant.token <= self.last_busy.token {
            return None;
        }
        if grant.claim.is_some() {
            grant.from = self.last_busy_sent;
        }
        // With little left, the guard might be lost before the answer to its first renewal.
        let until = validity(&grant);
        (until.since(now) >= until.since(grant.from) / 2).then_some(grant)
    }

    pub(super) async fn leave(self, state: &Arc<ClientState>) {
        if self.queued.doubtful {
            // Only `abandon` stops late requests.
            drop(self.waiter);
            calls::abandon(state, self.queued.request).await;
        } else {
            calls::leave(state, self.waiter, self.queued.request).await;
        }
    }
}

fn poll_after(busy: &Busy, now: Instant) -> Instant {
    now + busy.retry_after.max(SHORTEST_POLL_PAUSE)
}
