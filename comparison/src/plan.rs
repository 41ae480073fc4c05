//! How long, and how often.

use std::time::Duration;

use lock_core::{Error, ErrorKind};

use crate::Measure;

/// Rounds that count, besides the one that warms up.
const ROUNDS: usize = 5;
/// What the measurements take that wait for leases.
const SLOW: Duration = Duration::from_secs(3);
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(3600);

/// How long a comparison takes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    span: Duration,
}

impl Plan {
    /// Takes about `span` for all stores together, not counting what it waits for leases to end.
    ///
    /// # Errors
    /// `InvalidInput` for less than a second or more than an hour.
    pub fn new(span: Duration) -> Result<Self, Error> {
        if (SHORTEST..=LONGEST).contains(&span) {
            return Ok(Self { span });
        }
        let message = format!("a comparison of {span:?}; allowed are {SHORTEST:?} to {LONGEST:?}");
        Err(Error::new(ErrorKind::InvalidInput, message))
    }

    /// How long it is to take.
    #[must_use]
    pub fn span(&self) -> Duration {
        self.span
    }

    /// The first warms up.
    pub(crate) fn rounds(&self) -> usize {
        ROUNDS + 1
    }

    /// Whether a measurement is made in this round. Those that wait for leases are made less often
    /// where time is short, and need no warming up.
    pub(crate) fn makes(&self, measure: Measure, round: usize, stores: usize) -> bool {
        !measure.is_slow() || (1..=self.slow_rounds(stores)).contains(&round)
    }

    /// How many measurements there are.
    pub(crate) fn count(&self, stores: usize) -> usize {
        let made =
            |round| Measure::ALL.iter().filter(move |each| self.makes(**each, round, stores));
        (0..self.rounds()).map(|round| made(round).count()).sum::<usize>() * stores
    }

    fn slow_rounds(&self, stores: usize) -> usize {
        let each = SLOW.as_secs_f64() * stores as f64;
        ((self.span.as_secs_f64() * 0.4 / each) as usize).clamp(1, ROUNDS)
    }

    /// The time of one measurement on one store.
    pub(crate) fn slice(&self, stores: usize) -> Duration {
        let slow = SLOW * u32::try_from(self.slow_rounds(stores) * stores).unwrap_or(u32::MAX);
        let fast = Measure::ALL.iter().filter(|each| !each.is_slow()).count();
        let parts = self.rounds() * fast * stores;
        let left = self.span.saturating_sub(slow).max(self.span / 2);
        left / u32::try_from(parts).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_time_is_kept_to() {
        for (seconds, stores) in [(30, 1), (30, 2), (120, 7)] {
            let span = Duration::from_secs(seconds);
            let plan = Plan::new(span).unwrap();
            let fast = plan.slice(stores) * (plan.rounds() * 9 * stores) as u32;
            let slow = SLOW * (plan.slow_rounds(stores) * stores) as u32;
            assert!(fast + slow <= span * 3 / 2, "{fast:?} and {slow:?} of {span:?}");
        }
    }

    #[test]
    fn a_span_out_of_range_is_refused_with_the_range() {
        for span in [Duration::ZERO, Duration::from_secs(3601)] {
            let error = Plan::new(span).unwrap_err().to_string();
            assert!(error.contains("1s to 3600s"), "{error}");
        }
    }
}
