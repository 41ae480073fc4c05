//! Whether a job is due: a pure function of its last run, the period and the store's clock.

use std::time::Duration;

use super::{
    doubt::{Doubt, UnknownRun},
    last_run::{LastRun, RunState},
};
use crate::{
    Error, RecordRead, StoreTime, check_span,
    tunables::{
        KEPT_PERIODS, LONGEST_PERIOD, LONGEST_TOLERANCE, RUNS_KEPT, SHORTEST_PERIOD, TOLERANCE_PART,
    },
};

/// How often a job runs at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) period: Duration,
    /// A run that has begun counts, whatever came of it.
    pub(super) at_most_once: bool,
}

/// An attempt: the begin of its round, and its number in the round, from 1.
pub(super) type Attempt = (StoreTime, u32);

/// The answer to whether a job is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is, and this is its next attempt.
    Due(Attempt),
    /// It is not: this run counts for the period.
    NotDue(LastRun),
    /// It is unknown. If it runs nevertheless, this is its next attempt.
    Unknown(UnknownRun, Attempt),
}

impl Rule {
    /// Refuses a period out of range.
    pub(super) fn check(&self) -> Result<(), Error> {
        check_span("period", self.period, SHORTEST_PERIOD, LONGEST_PERIOD)
    }

    /// How much earlier than a period after the last round the next one may begin.
    fn tolerance(&self) -> Duration {
        (self.period / TOLERANCE_PART).min(LONGEST_TOLERANCE)
    }

    /// The time from the begin of a round to that of the next one, at least.
    pub(super) fn distance(&self) -> Duration {
        self.period - self.tolerance()
    }

    /// How long the store must keep the record of a run.
    pub(super) fn keep_for(&self) -> Duration {
        (self.period * KEPT_PERIODS).max(RUNS_KEPT)
    }

    /// Decides by the record that was read. `last` is what it contains.
    pub(super) fn decide(&self, read: &RecordRead, mut last: Option<LastRun>) -> Verdict {
        let (now, distance) = (read.now, self.distance());
        let unknown = |why, last, next| Verdict::Unknown(UnknownRun { why, last }, next);
        let mut next = (now, 1);
        if let Some(run) = &last {
            if run.written > now + self.tolerance() {
                let why = Doubt::ClockWentBack { written: run.written, now };
                return unknown(why, last, next);
            }
            if now < run.round + distance {
                next = (run.round, run.attempt.saturating_add(1));
                let counts = run.state == RunState::Done || self.at_most_once;
                // Whatever the store may have lost: this run is within the period.
                if let Some(run) = last.take_if(|_| counts) {
                    return Verdict::NotDue(run);
                }
            }
        }
        if !read.is_complete_for(distance) {
            let complete_since = read.complete_since;
            let until = complete_since + distance;
            return unknown(Doubt::Lost { complete_since, until }, last, next);
        }
        // A record that is there shows that the store has forgotten no later one.
        if last.is_none() && distance > RUNS_KEPT {
            return unknown(Doubt::Forgotten { kept_for: RUNS_KEPT }, last, next);
        }
        Verdict::Due(next)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::last_run::value_of, *};
    use crate::{FencingToken, OwnerLabel, Record};

    const MINUTE: Duration = Duration::from_secs(60);
    const DAY: Duration = Duration::from_secs(86_400);
    const DAILY: Rule = Rule { period: DAY, at_most_once: false };
    const AT_MOST_ONCE: Rule = Rule { at_most_once: true, ..DAILY };

    /// This time of day 100; hours from 24 on are of the next days.
    fn at(hours: u32, minutes: u32) -> StoreTime {
        StoreTime::EVER + DAY * 100 + MINUTE * (60 * hours + minutes)
    }

    fn run(state: RunState, attempt: Attempt, written: StoreTime) -> LastRun {
        let label = OwnerLabel::new("host:1").unwrap();
        let value = value_of(state, attempt, attempt.0, None, &label);
        LastRun::of(&Record::new(value.into(), FencingToken::ZERO, written)).unwrap()
    }

    /// The verdict on a run, from a store that has lost nothing since `complete_since`.
    fn decide(rule: Rule, run: &LastRun, now: StoreTime, complete_since: StoreTime) -> Verdict {
        let read = RecordRead::new(None, now).with_complete_since(complete_since);
        rule.decide(&read, Some(run.clone()))
    }

    fn decide_without(rule: Rule, now: StoreTime, complete_since: StoreTime) -> Verdict {
        rule.decide(&RecordRead::new(None, now).with_complete_since(complete_since), None)
    }

    fn doubt(verdict: Verdict) -> Doubt {
        match verdict {
            Verdict::Unknown(unknown, _) => unknown.why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_job_that_has_never_run_is_due() {
        let verdict = decide_without(DAILY, at(2, 0), StoreTime::EVER);
        assert_eq!(verdict, Verdict::Due((at(2, 0), 1)));
    }

    #[test]
    fn the_next_round_is_a_period_after_the_begin_of_the_last_less_a_tenth_or_an_hour() {
        let done = run(RunState::Done, (at(2, 0), 1), at(2, 30));
        let verdict = |now| decide(DAILY, &done, now, StoreTime::EVER);
        for now in [at(2, 0), at(2, 30), at(12, 0), at(24, 59)] {
            assert_eq!(verdict(now), Verdict::NotDue(done.clone()), "{now}");
        }
        assert_eq!(verdict(at(25, 0)), Verdict::Due((at(25, 0), 1)));
        let distance = |period| Rule { period, at_most_once: false }.distance();
        assert_eq!(distance(MINUTE), MINUTE - MINUTE / 10);
        assert_eq!(distance(10 * 60 * MINUTE), 9 * 60 * MINUTE);
        assert_eq!(distance(30 * DAY), 30 * DAY - 60 * MINUTE);
    }

    #[test]
    fn attempts_keep_the_begin_of_their_round() {
        let failed = run(RunState::Failed, (at(2, 0), 1), at(2, 10));
        let verdict = decide(DAILY, &failed, at(3, 30), StoreTime::EVER);
        assert_eq!(verdict, Verdict::Due((at(2, 0), 2)));
        // It succeeds late, and is due again at two o'clock less an hour.
        let done = run(RunState::Done, (at(2, 0), 2), at(3, 40));
        assert_eq!(decide(DAILY, &done, at(25, 0), StoreTime::EVER), Verdict::Due((at(25, 0), 1)),);
    }

    #[test]
    fn a_run_that_did_not_end_is_tried_again() {
        let started = run(RunState::Started, (at(2, 0), 3), at(2, 0));
        let verdict = decide(DAILY, &started, at(2, 1), StoreTime::EVER);
        assert_eq!(verdict, Verdict::Due((at(2, 0), 4)));
    }

    #[test]
    fn of_a_job_that_runs_at_most_once_every_start_counts() {
        for state in [RunState::Started, RunState::Failed, RunState::Done] {
            let last = run(state, (at(2, 0), 1), at(2, 1));
            let verdict = decide(AT_MOST_ONCE, &last, at(2, 2), at(2, 2));
            assert_eq!(verdict, Verdict::NotDue(last.clone()));
            let verdict = decide(AT_MOST_ONCE, &last, at(25, 0), StoreTime::EVER);
            assert_eq!(verdict, Verdict::Due((at(25, 0), 1)));
        }
    }

    #[test]
    fn missed_periods_are_one_round() {
        for state in [RunState::Started, RunState::Failed, RunState::Done] {
            let last = run(state, (at(2, 0), 5), at(2, 1));
            let now = at(24 * 9, 0);
            let verdict = decide(DAILY, &last, now, StoreTime::EVER);
            assert_eq!(verdict, Verdict::Due((now, 1)));
            let done = run(RunState::Done, (now, 1), now);
            let again = decide(DAILY, &done, now + MINUTE, StoreTime::EVER);
            assert_eq!(again, Verdict::NotDue(done));
        }
    }

    #[test]
    fn a_run_within_the_period_decides_although_data_was_lost() {
        let done = run(RunState::Done, (at(2, 0), 1), at(2, 30));
        let verdict = decide(DAILY, &done, at(13, 0), at(12, 0));
        assert_eq!(verdict, Verdict::NotDue(done));
    }

    #[test]
    fn otherwise_it_is_unknown_while_the_loss_is_within_the_period() {
        let yesterday = run(RunState::Done, (at(2, 0), 1), at(2, 30));
        let noon = at(36, 0);
        let lost = Doubt::Lost { complete_since: noon, until: at(36 + 23, 0) };
        for now in [noon, at(37, 0), at(36 + 22, 59)] {
            assert_eq!(doubt(decide(DAILY, &yesterday, now, noon)), lost);
            assert_eq!(doubt(decide_without(DAILY, now, noon)), lost);
        }
        let now = at(36 + 23, 0);
        assert_eq!(decide(DAILY, &yesterday, now, noon), Verdict::Due((now, 1)));
        assert_eq!(decide_without(DAILY, now, noon), Verdict::Due((now, 1)));
    }

    #[test]
    fn a_later_success_of_the_round_may_be_lost() {
        let failed = run(RunState::Failed, (at(2, 0), 1), at(2, 10));
        let verdict = decide(DAILY, &failed, at(12, 1), at(12, 0));
        let until = at(35, 0);
        let unknown = UnknownRun {
            why: Doubt::Lost { complete_since: at(12, 0), until },
            last: Some(failed.clone()),
        };
        // If it runs nevertheless, it stays in its round, so that tomorrow's is in time.
        assert_eq!(verdict, Verdict::Unknown(unknown, (at(2, 0), 2)));
        // And if that attempt failed, it is still unknown whether an earlier one has succeeded.
        let again = run(RunState::Failed, (at(2, 0), 2), at(12, 30));
        let lost = Doubt::Lost { complete_since: at(12, 0), until };
        assert_eq!(doubt(decide(DAILY, &again, at(13, 0), at(12, 0))), lost);
    }

    #[test]
    fn what_a_longer_period_may_have_been_forgotten_for_is_unknown() {
        let monthly = Rule { period: 31 * DAY, at_most_once: false };
        let quarterly = Rule { period: 92 * DAY, at_most_once: false };
        let now = at(2, 0);
        assert_eq!(decide_without(monthly, now, StoreTime::EVER), Verdict::Due((now, 1)));
        let forgotten = Doubt::Forgotten { kept_for: RUNS_KEPT };
        assert_eq!(doubt(decide_without(quarterly, now, StoreTime::EVER)), forgotten);
        let last = run(RunState::Done, (at(0, 0), 1), at(0, 0));
        let now = at(24 * 92, 0);
        assert_eq!(decide(quarterly, &last, now, StoreTime::EVER), Verdict::Due((now, 1)));
        for rule in [monthly, quarterly, DAILY] {
            let kept = rule.keep_for();
            assert!(kept >= 2 * rule.period && kept >= 7 * DAY && kept > monthly.distance());
        }
    }

    #[test]
    fn a_record_from_the_future_decides_nothing() {
        let done = run(RunState::Done, (at(2, 0), 1), at(2, 30));
        // Less than the tolerance: servers that take over from each other have such clocks.
        let verdict = decide(DAILY, &done, at(1, 30), StoreTime::EVER);
        assert_eq!(verdict, Verdict::NotDue(done.clone()));
        let now = at(1, 29);
        let back = Doubt::ClockWentBack { written: at(2, 30), now };
        assert_eq!(doubt(decide(DAILY, &done, now, StoreTime::EVER)), back);
    }

    #[test]
    fn a_period_out_of_range_is_refused() {
        for period in [Duration::ZERO, Duration::from_millis(999), 366 * DAY] {
            let error = Rule { period, at_most_once: false }.check().unwrap_err();
            assert!(error.to_string().contains("must be between 1s and 1year"), "{error}");
        }
        for period in [SHORTEST_PERIOD, LONGEST_PERIOD] {
            let rule = Rule { period, at_most_once: false };
            rule.check().unwrap();
            crate::RecordWrite::new("", rule.keep_for()).unwrap();
        }
    }

    /// What happens to the store and to the clients that ask.
    #[derive(Clone, Debug)]
    enum Step {
        Pass {
            minutes: u32,
        },
        /// A client asks, and the run ends so, or not at all. If it is unknown whether the job has
        /// run, it runs if `anyway`.
        Ask {
            end: Option<bool>,
            minutes: u32,
            anyway: bool,
        },
        /// The store keeps only this many of its writes, in thousandths.
        Lose {
            keep: usize,
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0_u32..2_000).prop_map(|minutes| Step::Pass { minutes }),
            5 => (any::<Option<bool>>(), 0_u32..90, any::<bool>())
                .prop_map(|(end, minutes, anyway)| Step::Ask { end, minutes, anyway }),
            1 => (0_usize..=1_000).prop_map(|keep| Step::Lose { keep }),
        ]
    }

    proptest! {
        /// No answer is wrong, whatever is lost, and no doubt lasts for longer than the period.
        #[test]
        fn no_answer_contradicts_what_has_happened(
            steps in prop::collection::vec(step(), 0..60),
            period in prop::sample::select(vec![MINUTE * 5, MINUTE * 60, DAY, 7 * DAY]),
            at_most_once: bool,
        ) {
            let rule = Rule { period, at_most_once };
            let (mut now, mut complete_since) = (at(0, 0), StoreTime::EVER);
            // All writes of the record, of which the last is there; and all runs that count.
            let (mut writes, mut counting): (Vec<LastRun>, Vec<LastRun>) = Default::default();
            for step in steps {
                match step {
                    Step::Pass { minutes } => now = now + MINUTE * minutes,
                    Step::Lose { keep } => {
                        writes.truncate(writes.len() * keep / 1_000);
                        now = now + MINUTE;
                        complete_since = now;
                    }
                    Step::Ask { end, minutes, anyway } => {
                        let within = |run: &LastRun| now < run.round + rule.distance();
                        let read = RecordRead::new(None, now).with_complete_since(complete_since);
                        let attempt = match rule.decide(&read, writes.last().cloned()) {
                            Verdict::Due(attempt) => {
                                prop_assert!(!counting.iter().any(within), "{counting:?}");
                                attempt
                            }
                            Verdict::NotDue(run) => {
                                prop_assert!(counting.contains(&run) && within(&run), "{run:?}");
                                continue;
                            }
                            Verdict::Unknown(_, attempt) => {
                                prop_assert!(now < complete_since + rule.distance());
                                if !anyway {
                                    continue;
                                }
                                attempt
                            }
                        };
                        prop_assert!(attempt.0 <= now && now < attempt.0 + rule.distance());
                        let started = run(RunState::Started, attempt, now);
                        writes.push(started.clone());
                        now = now + MINUTE * minutes;
                        let ended = end.map(|well| {
                            let state = if well { RunState::Done } else { RunState::Failed };
                            run(state, attempt, now)
                        });
                        writes.extend(ended.clone());
                        counting.extend(Some(started).filter(|_| at_most_once));
                        let counts = |run: &LastRun| at_most_once || run.state == RunState::Done;
                        counting.extend(ended.filter(counts));
                    }
                }
            }
        }
    }
}
