//! Rounds of contenders, printed as a table.

use std::time::{Duration, Instant};

use crate::quantile;

/// What one contender did in one round.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// How long each operation took.
    pub took: Vec<Duration>,
    /// How long all of them took together.
    pub all: Duration,
    /// How long processors were busy with them, here and on the server: what a loaded machine changes
    /// least.
    pub busy: (Duration, Duration),
}

/// Reads how long processors have been busy in this process, and in those of a server.
pub trait Meter {
    /// Both, since some moment.
    fn read(&self) -> (Duration, Duration);
}

impl Round {
    /// Runs `operation` for `span`, one after the other.
    pub async fn of(meter: &impl Meter, span: Duration, mut operation: impl AsyncFnMut()) -> Self {
        let (before, began) = (meter.read(), Instant::now());
        let mut took = Vec::new();
        while began.elapsed() < span {
            let start = Instant::now();
            operation().await;
            took.push(start.elapsed());
        }
        let (all, after) = (began.elapsed(), meter.read());
        Self { took, all, busy: (after.0 - before.0, after.1.saturating_sub(before.1)) }
    }

    fn each(&self, busy: Duration) -> f64 {
        busy.as_secs_f64() * 1e6 / self.took.len() as f64
    }

    fn rate(&self) -> f64 {
        self.took.len() as f64 / self.all.as_secs_f64()
    }
}

/// The rounds of all contenders; the first is what the others are measured by.
#[derive(Debug, Default)]
pub struct Table(Vec<(String, Vec<Round>)>);

impl Table {
    /// Adds a round of a contender.
    pub fn add(&mut self, name: &str, round: Round) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, rounds)) => rounds.push(round),
            None => self.0.push((name.to_owned(), vec![round])),
        }
    }

    /// Prints a line per contender: rate, p50, p99, busy µs per operation, and the ratio of its rate to the first one's, each
    /// the median over rounds, with the ratio's smallest and largest.
    pub fn print(&self, title: &str) {
        println!("\n{title}");
        println!("{:36} {:>9} {:>9} {:>9}   ratio to the first", "", "per s", "p50 µs", "p99 µs");
        let Some((_, first)) = self.0.first() else { return };
        for (name, rounds) in &self.0 {
            let over = |of: &dyn Fn(&Round) -> f64| median(rounds.iter().map(of).collect());
            let mut ratios: Vec<f64> =
                rounds.iter().zip(first).map(|(ours, floor)| ours.rate() / floor.rate()).collect();
            ratios.sort_by(f64::total_cmp);
            println!(
                "{name:36} {:9.0} {:9.1} {:9.1} {:9.1} {:9.1}   {:.2} ({:.2} to {:.2})",
                over(&Round::rate),
                over(&|round| quantile(&mut round.took.clone(), 0.5)),
                over(&|round| quantile(&mut round.took.clone(), 0.99)),
                over(&|round| round.each(round.busy.0)),
                over(&|round| round.each(round.busy.1)),
                median(ratios.clone()),
                ratios.first().unwrap_or(&0.0),
                ratios.last().unwrap_or(&0.0),
            );
        }
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(0.0)
}
