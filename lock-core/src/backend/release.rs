//! The options of a release, and its answer.

use std::time::Duration;

use super::{Enqueued, ReleaseOutcome, Request};

/// The options of [`Backend::release`](crate::Backend::release).
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ReleaseOptions<'a> {
    /// Keep the lock for this long, a minimum hold, instead of freeing it at once. Default: `None`.
    pub keep: Option<Duration>,
    /// The next request of the same process. The store adds it at the end of the queue, and only
    /// then hands the lock over. Default: `None`.
    pub next: Option<&'a Request>,
}

impl<'a> ReleaseOptions<'a> {
    /// Frees the lock at once, and carries no next request.
    #[must_use]
    pub const fn new() -> Self {
        Self { keep: None, next: None }
    }

    /// Sets [`keep`](Self::keep).
    #[must_use]
    pub fn with_keep(mut self, keep: impl Into<Option<Duration>>) -> Self {
        self.keep = keep.into();
        self
    }

    /// Sets [`next`](Self::next).
    #[must_use]
    pub fn with_next(mut self, next: impl Into<Option<&'a Request>>) -> Self {
        self.next = next.into();
        self
    }
}

/// The answer to [`Backend::release`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Released {
    /// Whether the owner held the lock.
    pub outcome: ReleaseOutcome,
    /// The answer to [`ReleaseOptions::next`]. `None` if there was no next request, or if the
    /// backend does not carry it: the core then enqueues it itself.
    pub next: Option<Enqueued>,
}

impl Released {
    /// An answer with the answer to the next request.
    #[must_use]
    pub const fn new(outcome: ReleaseOutcome, next: Option<Enqueued>) -> Self {
        Self { outcome, next }
    }

    /// An answer without one to a next request.
    #[must_use]
    pub const fn plain(outcome: ReleaseOutcome) -> Self {
        Self { outcome, next: None }
    }
}
