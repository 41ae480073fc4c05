//! How long, and how often.

use std::time::{Duration, Instant};

use lock_core::{Error, ErrorKind};

use crate::measure::{Ends, Step};

/// Rounds that count, besides the one that warms up.
const ROUNDS: usize = 5;
/// Where time is short there are fewer rounds rather than shorter slices.
const SHORT: Duration = Duration::from_millis(80);
/// Fewer say nothing of a spread.
const FEWEST: usize = 3;
/// The part of the time for what is measured in rounds.
const IN_ROUNDS: f64 = 0.5;
/// Where the machine is too busy for that: the part for the fewest rounds.
const AT_MOST: f64 = 0.8;
/// The part for how holders end.
const OF_ENDS: f64 = 0.15;
/// What a measurement takes besides its slice, as a part of it: waiters that leave, for example.
const BESIDES: f64 = 1.5;
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(3600);

/// How long a comparison takes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    span: Duration,
}

impl Plan {
    /// Takes about `span` for all stores together. What there is no time for is left out, and the
    /// report says so: how holders end takes a few seconds, and so do held locks.
    ///
    /// # Errors
    /// `InvalidInput` for less than a second or more than an hour.
    pub fn new(span: Duration) -> Result<Self, Error> {
        if (SHORTEST..=LONGEST).contains(&span) {
            return Ok(Self { span });
        }
        let message =
            format!("a comparison of {span:?} must be between {SHORTEST:?} and {LONGEST:?}");
        Err(Error::new(ErrorKind::InvalidInput, message))
    }

    /// How long it is to take.
    #[must_use]
    pub fn span(&self) -> Duration {
        self.span
    }

    /// How many rounds count, and the time of a step of weight one on one store.
    pub(crate) fn rounds(&self, stores: usize) -> (usize, Duration) {
        let weights: f64 = Step::ALL.iter().map(|step| step.weight()).sum();
        let slice = |rounds: usize| {
            let parts = (rounds + 1) as f64 * weights * stores as f64;
            self.span.mul_f64(IN_ROUNDS / BESIDES / parts)
        };
        let enough = (FEWEST..=ROUNDS).rev().find(|rounds| slice(*rounds) >= SHORT);
        let rounds = enough.unwrap_or(FEWEST);
        (rounds, slice(rounds))
    }

    pub(crate) fn starts(self) -> Course {
        Course { span: self.span, began: Instant::now(), ends: None }
    }
}

/// A plan while it is carried out.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) span: Duration,
    began: Instant,
    /// When the rounds were over.
    ends: Option<Duration>,
}

impl Course {
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether there is another round after `made`, of which the first warms up and `rounds` count.
    pub(crate) fn another_round(&self, made: usize, rounds: usize) -> bool {
        let before = |part| self.elapsed() < self.span.mul_f64(part);
        // The first one warms up, and one that counts has to be.
        made <= 1 || (made <= FEWEST && before(AT_MOST)) || (made <= rounds && before(IN_ROUNDS))
    }

    /// Whether how holders end is seen at all: first of all then, so that a busy machine has it, too.
    pub(crate) fn has_ends(&self) -> bool {
        self.span >= Ends::TAKES * 3
    }

    /// Whether there is time to see it once more, after `made` times.
    pub(crate) fn another_end(&mut self, made: usize) -> bool {
        let since = *self.ends.get_or_insert(self.began.elapsed());
        let next = self.elapsed() + Ends::TAKES;
        (1..ROUNDS).contains(&made) && next <= since + self.span.mul_f64(OF_ENDS)
    }

    /// Whether something that takes so long may begin.
    pub(crate) fn has(&self, takes: Duration) -> bool {
        self.elapsed() + takes <= self.span
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
            let (count, slice) = plan.rounds(stores);
            let weights: f64 = Step::ALL.iter().map(|step| step.weight()).sum();
            let rounds = slice.mul_f64(weights * stores as f64 * (count + 1) as f64);
            assert!(rounds.mul_f64(BESIDES) <= span.mul_f64(IN_ROUNDS * 1.01), "{rounds:?}");
            assert!(count == ROUNDS || slice >= SHORT || count == FEWEST);
            let course = plan.starts();
            assert!(course.has(span / 2) && !course.has(span * 2));
        }
    }

    #[test]
    fn a_span_out_of_range_is_refused_with_the_range() {
        for span in [Duration::ZERO, Duration::from_secs(3601)] {
            let error = Plan::new(span).unwrap_err().to_string();
            assert!(error.contains("1s and 3600s"), "{error}");
        }
    }
}
