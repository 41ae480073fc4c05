//! A contest of contenders that take turns, and what is asked of their figures.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use benchmarks::{
    Awake, Call, Children, Contender, Pace, Seen, compete, many, one_by_one, quantile, seen,
};
use comparison::{Contest, Ratio, Target, Trouble};
use futures_util::future::BoxFuture;

/// Who does what.
pub(crate) enum How {
    /// One call after the other.
    Calls(Call),
    /// 64 tasks at once.
    Many(Call),
    /// 16 tasks on one name.
    Tasks(Vec<Contender>),
    /// The same, each holding for 10 ms and thinking for 50 ms.
    Paced(Vec<Contender>),
    /// One call each 10 ms: at their pace, as a processor that sleeps takes longer.
    PacedCalls(Call),
    /// Tasks of several processes on one name.
    Processes(Children),
}

impl How {
    fn weight(&self) -> f64 {
        match self {
            Self::Calls(_) | Self::Many(_) => 1.0,
            Self::Tasks(_) => 2.0,
            Self::Processes(_) => 3.0,
            Self::Paced(_) | Self::PacedCalls(_) => 5.0,
        }
    }

    async fn measure(&mut self, unit: Duration) -> Seen {
        let span = unit.mul_f64(self.weight());
        match self {
            Self::Calls(call) => one_by_one(call, span).await,
            Self::Many(call) => many(call, 64, span).await,
            Self::Tasks(contenders) => {
                seen(&mut compete(contenders, 16, 0, "one", Pace::fast(span)).await)
            }
            Self::Paced(contenders) => {
                let [hold, think] = [10, 50].map(Duration::from_millis);
                seen(&mut compete(contenders, 16, 0, "paced", Pace { span, hold, think }).await)
            }
            Self::PacedCalls(call) => paced(call, span).await,
            Self::Processes(children) => seen(&mut children.compete(span).await),
        }
    }
}

async fn paced(call: &Call, span: Duration) -> Seen {
    let (mut took, began) = (Vec::new(), Instant::now());
    while began.elapsed() < span {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let start = Instant::now();
        call(0).await;
        took.push(start.elapsed());
    }
    let (count, per_second) = (took.len(), took.len() as f64 / began.elapsed().as_secs_f64());
    let [p50, p99] = [0.5, 0.99].map(|part| quantile(&mut took, part));
    Seen { count, per_second, p50, p99 }
}

/// What a server has counted so far.
pub(crate) type Count = Box<dyn Fn() -> BoxFuture<'static, f64> + Send + Sync>;

/// Which figure is compared.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    Rate,
    P50,
    P99,
    /// What the server counts per operation.
    Counted(&'static str),
}

impl Of {
    fn of(self, (seen, counted): &(Seen, f64)) -> f64 {
        match self {
            // One that came to nothing at all is not compared with nothing.
            Self::Rate => seen.per_second.max(0.5),
            Self::P50 => seen.p50,
            Self::P99 => seen.p99,
            Self::Counted(_) => *counted,
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Rate => "per second",
            Self::P50 => "µs, median",
            Self::P99 => "µs, 99th of 100",
            Self::Counted(what) => what,
        }
    }
}

/// What a figure stands against.
pub(crate) enum Against {
    One(&'static str),
    /// Of these, the one that did most.
    Best(&'static str, &'static [&'static str]),
    /// All of these one after the other.
    Sum(&'static str, &'static [&'static str]),
    /// A number.
    Just(&'static str, f64),
}

struct Row {
    what: String,
    ours: &'static str,
    against: Against,
    of: Of,
    target: Option<Target>,
}

/// Contenders on one server.
pub(crate) struct Duel {
    store: String,
    title: &'static str,
    contenders: Vec<(&'static str, How)>,
    rows: Vec<Row>,
    count: Option<Count>,
    awake: bool,
    made: usize,
}

impl Duel {
    pub(crate) fn new(store: impl Into<String>, title: &'static str) -> Self {
        let (contenders, rows, store) = (Vec::new(), Vec::new(), store.into());
        Self { store, title, contenders, rows, count: None, awake: false, made: 0 }
    }

    /// The cores are kept from sleeping meanwhile.
    pub(crate) fn awake(mut self) -> Self {
        self.awake = true;
        self
    }

    pub(crate) fn counting(mut self, count: Count) -> Self {
        self.count = Some(count);
        self
    }

    pub(crate) fn with(mut self, name: &'static str, how: How) -> Self {
        self.contenders.push((name, how));
        self
    }

    /// `what` is asked of `ours`.
    pub(crate) fn row(
        mut self,
        what: &str,
        ours: &'static str,
        against: Against,
        of: Of,
        target: impl Into<Option<Target>>,
    ) -> Self {
        let what =
            if what.is_empty() { self.title.to_owned() } else { format!("{}: {what}", self.title) };
        self.rows.push(Row { what, ours, against, of, target: target.into() });
        self
    }

    pub(crate) fn boxed(self) -> Box<dyn Contest> {
        Box::new(self)
    }
}

#[async_trait]
impl Contest for Duel {
    fn title(&self) -> String {
        format!("{}, {}", self.store, self.title)
    }

    fn weight(&self) -> f64 {
        self.contenders.iter().map(|(_, how)| how.weight()).sum()
    }

    async fn round(&mut self, unit: Duration) -> Result<Vec<Ratio>, Trouble> {
        let _awake = self.awake.then(Awake::keep);
        let mut all = vec![None; self.contenders.len()];
        for turn in 0..self.contenders.len() {
            let at = (turn + self.made) % self.contenders.len();
            let (_, how) = &mut self.contenders[at];
            let before = match &self.count {
                Some(count) => count().await,
                None => 0.0,
            };
            let seen = how.measure(unit).await;
            let counted = match &self.count {
                Some(count) => (count().await - before) / seen.count as f64,
                None => 0.0,
            };
            all[at] = Some((seen, counted));
        }
        self.made += 1;
        let figure = |name: &str, of: Of| {
            let at = self.contenders.iter().position(|(contender, _)| *contender == name);
            of.of(&at.and_then(|at| all[at]).unwrap_or_else(|| panic!("no contender {name:?}")))
        };
        let ratio = |row: &Row| {
            let (floor, other) = match &row.against {
                Against::One(name) => (*name, figure(name, row.of)),
                Against::Best(floor, names) => {
                    (*floor, names.iter().map(|name| figure(name, row.of)).fold(0.0, f64::max))
                }
                Against::Sum(floor, names) => {
                    (*floor, names.iter().map(|name| figure(name, row.of)).sum())
                }
                Against::Just(floor, value) => (*floor, *value),
            };
            let what = format!("{}, {}", row.what, row.ours);
            let ratio = Ratio::new(&self.store, what, floor, row.of.unit()).wanted(row.target);
            ratio.of(figure(row.ours, row.of), other)
        };
        Ok(self.rows.iter().map(ratio).collect())
    }
}
