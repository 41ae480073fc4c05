//! How long a comparison takes, and how often it measures.

use std::time::{Duration, Instant};

use lock_core::{Error, ErrorKind};

use crate::measure::{Ends, Step};

/// Rounds that count, after the one that warms up. Two stores are told apart only if every round of
/// one was better than every round of the other. For equal stores, chance does this in one of 126
/// comparisons with five rounds, and in one of ten with three.
pub(crate) const ROUNDS: usize = 5;
/// The part of the time that is planned for the rounds.
const IN_ROUNDS: f64 = 0.5;
/// The part of the time after which no round begins, if the machine is too busy for [`IN_ROUNDS`].
const AT_MOST: f64 = 0.65;
/// The part of the time for lost holders.
const OF_ENDS: f64 = 0.15;
/// How long a measurement really takes, as a multiple of its slice: for example, waiters must end.
const BESIDES: f64 = 1.5;
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(3600);

/// How long a comparison takes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    span: Duration,
}

impl Plan {
    /// A plan of about `span` for all stores together. Lost holders and held locks take a few
    /// seconds each. If there is no time for a measurement, the run omits it and the report says
    /// so.
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

    /// How long the comparison takes.
    #[must_use]
    pub fn span(&self) -> Duration {
        self.span
    }

    /// The time of a step with weight one on one store.
    pub(crate) fn slice(&self, stores: usize) -> Duration {
        let weights: f64 = Step::ALL.iter().map(|step| step.weight()).sum();
        let parts = (ROUNDS + 1) as f64 * weights * stores as f64;
        self.span.mul_f64(IN_ROUNDS / BESIDES / parts)
    }

    pub(crate) fn starts(self) -> Course {
        Course { span: self.span, began: Instant::now(), ends: None }
    }
}

/// A plan while it runs.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) span: Duration,
    began: Instant,
    /// How much time had passed after the rounds.
    ends: Option<Duration>,
}

impl Course {
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether there is another round after `made` rounds. The first one warms up, and one must
    /// count.
    pub(crate) fn another_round(&self, made: usize) -> bool {
        let is_time = self.elapsed() < self.span.mul_f64(AT_MOST);
        made <= 1 || (made <= ROUNDS && is_time)
    }

    /// Whether to measure lost holders. If so, they are measured first, so that a busy machine has
    /// these figures, too.
    pub(crate) fn has_ends(&self) -> bool {
        self.span >= Ends::TAKES * 3
    }

    /// Whether there is time to measure them again, after `made` times.
    pub(crate) fn another_end(&mut self, made: usize) -> bool {
        let since = *self.ends.get_or_insert(self.began.elapsed());
        let next = self.elapsed() + Ends::TAKES;
        (1..ROUNDS).contains(&made) && next <= self.span.min(since + self.span.mul_f64(OF_ENDS))
    }

    /// Whether there is time for something that takes so long.
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
        let span = Duration::from_secs(600);
        let mut course = Plan::new(span).unwrap().starts();
        assert!(course.another_round(ROUNDS) && !course.another_round(ROUNDS + 1));
        assert!(course.has(span / 2) && !course.has(span * 2));
        assert!(course.another_end(1) && !course.another_end(ROUNDS));
        course.began = Instant::now().checked_sub(span).unwrap();
        assert!(course.another_round(1) && !course.another_round(2));
        assert!(!course.another_end(1) && !course.has(Duration::from_secs(1)));
    }

    #[test]
    fn a_span_out_of_range_is_refused_with_the_range() {
        for span in [Duration::ZERO, Duration::from_secs(3601)] {
            let error = Plan::new(span).unwrap_err().to_string();
            assert!(error.contains("1s and 3600s"), "{error}");
        }
    }
}
