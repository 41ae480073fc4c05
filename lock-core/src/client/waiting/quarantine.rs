//! The wait for the end of a quarantine, apart from the wait for the lock.

use std::{sync::Arc, time::Duration};

use crate::{
    Blocked, Env, Error, Instant, Quarantined, drift_margin,
    tunables::{LONGEST_QUARANTINE_PAUSE, QUARANTINE_COARSENESS, SHORTEST_QUARANTINE_PAUSE},
};

/// How long a quarantine is waited for, by what the store says of it.
pub(crate) type Limit = Arc<dyn Fn(&Quarantined) -> Duration + Send + Sync>;

/// What an acquire still allows a quarantine.
pub(crate) struct QuarantineWait {
    /// None where a quarantine counts as any wait.
    limit: Option<Limit>,
    /// Known with the first answer that tells of a quarantine.
    end: Option<Instant>,
    /// When the quarantine is over, as last heard.
    over: Option<Instant>,
}

impl QuarantineWait {
    pub(crate) fn new(limit: Option<Limit>) -> Self {
        Self { limit, end: None, over: None }
    }

    /// Whether an attempt that finds a quarantine is to end at once.
    pub(crate) fn is_apart(&self) -> bool {
        self.limit.is_some()
    }

    /// Waits for the next attempt, whose wait begins anew; `false` where `failed` is the result.
    pub(crate) async fn again(&mut self, env: &dyn Env, failed: &Error, at_once: bool) -> bool {
        let Some(limit) = self.limit.clone() else { return false };
        if self.pause(env, &limit, failed).await {
            return true;
        }
        // What is left of the quarantine counts as any wait.
        let held_back = matches!(failed.blocked(), Some(Blocked::Quarantined(_)));
        if held_back {
            self.limit = None;
        }
        held_back && !at_once
    }

    /// Waits for the next attempt, if a quarantine is what the last one failed by; `false` where it is not, and when
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
            // The store is away for a moment during its quarantine.
            None if failed.is_retryable() && self.over.is_some_and(|over| now < over) => {
                LONGEST_QUARANTINE_PAUSE
            }
            _ => return false,
        };
        let left = self.end.map_or(Duration::ZERO, |end| end.since(now));
        if left.is_zero() {
            return false;
        }
        // Not spread: all that wait come back at the end of the quarantine, so that one of them gets the lock and
        // the others find it held.
        env.sleep(pause.clamp(SHORTEST_QUARANTINE_PAUSE, LONGEST_QUARANTINE_PAUSE).min(left)).await;
        true
    }
}

/// The limit, with a margin where it allows the whole quarantine.
fn span(limit: Duration, reported: &Quarantined) -> Duration {
    if limit < reported.remaining || limit.is_zero() {
        return limit;
    }
    limit.saturating_add(drift_margin(limit) + QUARANTINE_COARSENESS)
}
