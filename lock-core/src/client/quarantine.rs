//! The wait for the end of a quarantine, apart from the wait for the lock.

use std::{sync::Arc, time::Duration};

use crate::{Blocked, Env, Error, Instant, Quarantined, drift_margin};

/// Longest pause between attempts: an operator may end a quarantine early.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Shortest pause: a store may count a quarantine more coarsely than it answers.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// A quarantine may last longer than the store said by this: etcd counts whole seconds, and ends a lease late.
const COARSE: Duration = Duration::from_secs(2);

/// How long a quarantine is waited for, by what the store says of it.
pub(super) type Limit = Arc<dyn Fn(&Quarantined) -> Duration + Send + Sync>;

/// What an acquire still allows a quarantine.
pub(super) struct Patience {
    limit: Limit,
    /// Known with the first answer that tells of a quarantine.
    end: Option<Instant>,
    /// When the quarantine is over, as last heard.
    over: Option<Instant>,
}

impl Patience {
    pub(super) fn new(limit: Limit) -> Self {
        Self { limit, end: None, over: None }
    }

    /// Waits for the next attempt, if a quarantine is what the last one failed by; `false` where it is not, and when
    /// the limit is over.
    pub(super) async fn pause(&mut self, env: &dyn Env, failed: &Error) -> bool {
        let now = env.now();
        let pause = match failed.blocked() {
            Some(Blocked::Quarantined(told)) => {
                let end = self.end.get_or_insert_with(|| now + span((self.limit)(told), told));
                if now >= *end {
                    return false;
                }
                self.over = Some(now + told.remaining + COARSE);
                told.remaining
            }
            // The store is away for a moment during its quarantine.
            None if failed.is_retryable() && self.over.is_some_and(|over| now < over) => {
                LONGEST_PAUSE
            }
            _ => return false,
        };
        let left = self.end.map_or(Duration::ZERO, |end| end.since(now));
        if left.is_zero() {
            return false;
        }
        // Not spread: all that wait come back at the end of the quarantine, so that one of them gets the lock and
        // the others find it held.
        env.sleep(pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE).min(left)).await;
        true
    }
}

/// The limit, with a margin where it allows the whole quarantine.
fn span(limit: Duration, told: &Quarantined) -> Duration {
    if limit < told.remaining || limit.is_zero() {
        return limit;
    }
    limit.saturating_add(drift_margin(limit) + COARSE)
}
