//! What is asked of Redlock.

use std::time::Duration;

use async_trait::async_trait;
use benchmarks::{Contender, Paused, bare, pairs_of};
use comparison::{Contest, Ratio, Target, Trouble};

use crate::duel::{
    Against::One,
    Duel, How,
    Of::{P50, P99, Rate},
};
use Target::{AtLeast, AtMost};

const OURS: &str = "leasehold, one client";
const EACH: &str = "leasehold, a client each";
const RSLOCK: &str = "rslock, its own pauses";

pub(crate) async fn contests(store: &str, url: &str) -> Vec<Box<dyn Contest>> {
    const PINGS: &str = "a PING to all nodes at once, until the slowest has answered, twice";
    let ours = Contender::open("leasehold", url).await;
    let rslock = Contender::open("rslock", url).await;
    let one = Duel::new(store, "acquire + release, cores awake")
        .awake()
        .with(PINGS, How::Calls(bare::pings_of_all(url).await))
        .with(OURS, How::Calls(pairs_of(&ours)))
        .with(RSLOCK, How::Calls(pairs_of(&rslock)))
        .row("", OURS, One(PINGS), P50, AtMost(1.4))
        .row("", OURS, One(RSLOCK), P50, None);
    let own_names = Duel::new(store, "64 tasks, own names, cores awake")
        .awake()
        .with(OURS, How::Many(pairs_of(&ours)))
        .with(RSLOCK, How::Many(pairs_of(&rslock)))
        .row("", OURS, One(RSLOCK), Rate, AtLeast(2.0));
    let mut one_name = Duel::new(store, "16 tasks on one name, cores awake")
        .awake()
        .with(OURS, How::Tasks(vec![ours]))
        .with(EACH, How::Tasks(Contender::each("leasehold", url, 16).await))
        .with(RSLOCK, How::Tasks(vec![rslock]));
    for ours in [OURS, EACH] {
        one_name = one_name.row("", ours, One(RSLOCK), Rate, AtLeast(15.0)).row(
            "release to acquired",
            ours,
            One(RSLOCK),
            P99,
            AtMost(0.1),
        );
    }
    let paused = TwoPaused { store: store.to_owned(), nodes: Paused::start().await };
    vec![one.boxed(), own_names.boxed(), one_name.boxed(), Box::new(paused)]
}

struct TwoPaused {
    store: String,
    nodes: Paused,
}

#[async_trait]
impl Contest for TwoPaused {
    fn title(&self) -> String {
        format!("{}, two of five nodes paused", self.store)
    }

    fn weight(&self) -> f64 {
        4.0
    }

    async fn round(&mut self, unit: Duration) -> Result<Vec<Ratio>, Trouble> {
        let [healthy, degraded] = self.nodes.round(unit).await;
        let what = "acquire + release, two of five nodes paused";
        let ratio = Ratio::new(&self.store, what, "with all five", "µs, median");
        Ok(vec![ratio.wanted(AtMost(1.5)).of(degraded.p50, healthy.p50)])
    }
}
