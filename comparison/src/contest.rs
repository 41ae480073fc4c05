//! Leasehold beside something else than a floor: other libraries, other settings, several processes.

use std::{panic::AssertUnwindSafe, time::Duration};

use async_trait::async_trait;
use futures_util::FutureExt as _;

use crate::{Absent, Ratio, sample::median_and_spread};

/// Why a contest has no figures.
pub type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// Ratios that are measured in the rounds of the stores, on a server of one of them.
#[async_trait]
pub trait Contest: Send {
    /// What it is, for who waits for it, and for the report where it has no figures.
    fn title(&self) -> String;

    /// How much of the time its rounds are to have: a store's 64 tasks with names of their own have 1.0.
    fn weight(&self) -> f64;

    /// For a contest of a single round, after all others: how long that takes (default: in every round).
    fn once(&self) -> Option<Duration> {
        None
    }

    /// One round, of about `unit` times its weight; the first warms up and does not count. The report
    /// has the medians of both figures, and their ratio.
    ///
    /// # Errors
    /// Its own: it then has no figures. A panic counts as one.
    async fn round(&mut self, unit: Duration) -> Result<Vec<Ratio>, Trouble>;
}

/// Contests of a run.
pub(crate) type Contests = Vec<Box<dyn Contest>>;

/// What came of one.
#[derive(Debug)]
pub(crate) struct OfContest {
    title: String,
    rounds: Vec<Vec<Ratio>>,
    failed: Option<String>,
}

impl OfContest {
    pub(crate) fn new(contest: &dyn Contest) -> Self {
        Self { title: contest.title(), rounds: Vec::new(), failed: None }
    }

    /// Makes a round, after which this has its figures if it `counts`.
    pub(crate) async fn round(&mut self, contest: &mut dyn Contest, unit: Duration, counts: bool) {
        let made = AssertUnwindSafe(contest.round(unit)).catch_unwind().await;
        match made {
            Ok(Ok(_)) if !counts => {}
            Ok(Ok(ratios)) => self.rounds.push(ratios),
            Ok(Err(why)) => self.fails(why.to_string()),
            Err(_) => self.fails("it panicked".to_owned()),
        }
    }

    pub(crate) fn fails(&mut self, why: String) {
        self.failed.get_or_insert(why);
    }

    /// One that has failed is not tried again.
    pub(crate) fn goes_on(&self) -> bool {
        self.failed.is_none()
    }

    /// The medians over its rounds, or why there are none.
    pub(crate) fn ratios(self) -> Result<Vec<Ratio>, Absent> {
        let Self { title, rounds, failed } = self;
        if let Some(why) = failed {
            return Err(Absent { name: title, why });
        }
        let first = rounds.first().cloned().unwrap_or_default();
        let median = |at: usize, value: fn(&Ratio) -> f64| {
            let values = rounds.iter().filter_map(|round| round.get(at)).map(value).collect();
            median_and_spread(values).map_or(0.0, |(median, _)| median)
        };
        let over = first.into_iter().enumerate();
        Ok(over
            .map(|(at, ratio)| {
                ratio.of(median(at, |it| it.figure), median(at, |it| it.floor_figure))
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    fn ratio(figure: f64, floor_figure: f64) -> Ratio {
        Ratio::new("redis", "handoffs", "rslock", "per second")
            .wanted(Target::AtLeast(2.0))
            .of(figure, floor_figure)
    }

    #[test]
    fn the_medians_of_the_rounds_are_compared() {
        let rounds = [ratio(10.0, 1.0), ratio(30.0, 20.0), ratio(20.0, 5.0)];
        let rounds = rounds.map(|round| vec![round]).to_vec();
        let made = OfContest { title: String::new(), rounds, failed: None };
        let ratios = made.ratios().unwrap_or_else(|absent| unreachable!("{absent:?}"));
        assert_eq!(ratios, [ratio(20.0, 5.0)]);
        assert_eq!((ratios[0].ratio, ratios[0].met), (4.0, Some(true)));
    }

    /// Fails at its second round, in one way or the other.
    struct Fails {
        made: usize,
        panics: bool,
    }

    #[async_trait]
    impl Contest for Fails {
        fn title(&self) -> String {
            "8 processes".to_owned()
        }

        fn weight(&self) -> f64 {
            1.0
        }

        async fn round(&mut self, _: Duration) -> Result<Vec<Ratio>, Trouble> {
            self.made += 1;
            assert!(self.made < 3 || !self.panics, "seeded");
            if self.made < 3 { Ok(vec![ratio(1.0, 1.0)]) } else { Err("no such program".into()) }
        }
    }

    #[tokio::test]
    async fn one_that_failed_says_so_instead() {
        for (panics, why) in [(false, "no such program"), (true, "it panicked")] {
            let mut contest = Fails { made: 0, panics };
            let mut made = OfContest::new(&contest);
            made.round(&mut contest, Duration::ZERO, false).await;
            assert!(made.rounds.is_empty(), "the first warms up");
            made.round(&mut contest, Duration::ZERO, true).await;
            assert!(made.goes_on() && made.rounds.len() == 1);
            made.round(&mut contest, Duration::ZERO, true).await;
            assert!(!made.goes_on());
            let absent = made.ratios().err().unwrap_or_else(|| unreachable!());
            assert_eq!((&*absent.name, &*absent.why), ("8 processes", why));
        }
    }
}
