//! The wait for the end of a quarantine, separate from the wait for the lock.

use std::{sync::Arc, time::Duration};

use crate::{
    Blocked, Env, Error, Instant, Quarantined, drift_margin,
    tunables::{LONGEST_QUARANTINE_PAUSE, QUARANTINE_COARSENESS, SHORTEST_QUARANTINE_PAUSE},
};

/// Returns how long to wait for a quarantine.
pub(crate) type Limit = Arc<dyn Fn(&Quarantined) -> Duration + Send + Sync>;

/// The wait for a quarantine in one acquire.
pub(crate) struct QuarantineWait {
    /// `None` if a quarantine counts towards the wait for the lock.
    limit: Option<Limit>,
    /// The end of this wait, known after the first answer with a quarantine.
    end: Option<Instant>,
    /// When the quarantine is over, by the last answer.
    over: Option<Instant>,
}

impl QuarantineWait {
    pub(crate) fn new(limit: Option<Limit>) -> Self {
        Self { limit, end: None, over: None }
    }

    /// Whether an attempt that finds a quarantine should end at once.
    pub(crate) fn is_separate(&self) -> bool {
        self.limit.is_some()
    }

    /// Waits before the next attempt, whose wait begins anew; `false` if `failed` is the result of
    /// the acquire.
    pub(crate) async fn retry(&mut self, env: &dyn Env, failed: &Error, at_once: bool) -> bool {
        let Some(limit) = self.limit.clone() else { return false };
        if self.pause(env, &limit, failed).await {
            return true;
        }
        // The rest of the quarantine counts towards the wait for the lock.
        let quarantined = matches!(failed.blocked(), Some(Blocked::Quarantined(_)));
        if quarantined {
            self.limit = None;
        }
        quarantined && !at_once
    }

    /// Waits before the next attempt, if a quarantine stopped the last one; `false` if not, or if
    /// the limit is over.
    async fn pause(&mut self, env: &dyn Env, limit: &Limit, failed: &Error) -> bool {
        let now = env.now();
        let pause = match failed.blocked() {
            Some(Blocked::Quarantined(reported)) => {
                let end = self.end.get_or_insert_with(|| now + span(limit(reported), reported));
                if now >= *end {
                    return false;
                }
                self.over = Some(now + reported.remaining + QUARANTINE_COARSENESS);
                reported.remaining
            }
            // The store is unreachable for a moment during its quarantine.
            None if failed.is_retryable() && self.over.is_some_and(|over| now < over) => {
                LONGEST_QUARANTINE_PAUSE
            }
            _ => return false,
        };
        let left = self.end.map_or(Duration::ZERO, |end| end.since(now));
        if left.is_zero() {
            return false;
        }
        // Without jitter: all waiters try at the end of the quarantine, so that one gets the lock
        // and the others find it held.
        env.sleep(pause.clamp(SHORTEST_QUARANTINE_PAUSE, LONGEST_QUARANTINE_PAUSE).min(left)).await;
        true
    }
}

/// The limit, with a margin if it covers the whole quarantine.
fn span(limit: Duration, reported: &Quarantined) -> Duration {
    if limit < reported.remaining || limit.is_zero() {
        return limit;
    }
    limit.saturating_add(drift_margin(limit) + QUARANTINE_COARSENESS)
}
