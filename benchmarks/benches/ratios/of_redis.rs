//! What is asked of one Redis.

use std::time::Duration;

use async_trait::async_trait;
use benchmarks::{Children, Contender, bare, call, hold, pairs_of};
use comparison::{Contest, Ratio, Target, Trouble};
use redis::aio::MultiplexedConnection;

use crate::duel::{
    Against::{Best, Just, One},
    Count, Duel, How,
    Of::{Counted, P50, P99, Rate},
};
use Target::{AtLeast, AtMost};

const OURS: &str = "leasehold, one client";
const EACH: &str = "leasehold, a client each";
const RSLOCK: [(&str, &str); 4] = [
    ("rslock, its own pauses", "rslock"),
    ("rslock, 5 ms", "rslock 5"),
    ("rslock, 2 ms", "rslock 2"),
    ("rslock, 1 ms", "rslock 1"),
];
const BEST: &str = "rslock, the best of 5, 2 and 1 ms";
const POLLING: &[&str] = &["rslock, 5 ms", "rslock, 2 ms", "rslock, 1 ms"];
const SCRIPTS: &str = "scripts per handoff";

/// On the server of a store of this name, at this URL.
pub(crate) async fn contests(store: &str, url: &str) -> Vec<Box<dyn Contest>> {
    let client = redis::Client::open(url).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let floor = bare::Redis::new(connection.clone());
    let ours = Contender::open("leasehold", url).await;
    vec![
        one(store, &floor, &ours).boxed(),
        own_names(store, url, &floor, &ours).await.boxed(),
        one_name(store, url, &ours).await.counting(scripts(connection.clone())).boxed(),
        processes(store, url).await.counting(scripts(connection.clone())).boxed(),
        paced(store, url, &floor, ours).await.boxed(),
        Box::new(Held { store: store.to_owned(), url: url.to_owned(), connection }),
    ]
}

fn one(store: &str, floor: &bare::Redis, ours: &Contender) -> Duel {
    const BARE: &str = "SET NX PX, and a script that compares and deletes";
    let [bare, minting, pings] = [(); 3].map(|()| floor.clone());
    Duel::new(store, "acquire + release, cores awake")
        .awake()
        .with("two PINGs", How::Calls(call(move |_| pings.clone().pings(2))))
        .with(BARE, How::Calls(call(move |task| bare.clone().bare(task))))
        .with("the bare pair, minting a token", {
            How::Calls(call(move |task| minting.clone().minting(task)))
        })
        .with(OURS, How::Calls(pairs_of(ours)))
        .row("", OURS, One(BARE), P50, AtMost(1.2))
        .row("", OURS, One("two PINGs"), P50, None)
        .row("the token's price", "the bare pair, minting a token", One(BARE), P50, None)
}

async fn own_names(store: &str, url: &str, floor: &bare::Redis, ours: &Contender) -> Duel {
    const MINTING: &str = "two scripts, one of which mints a token";
    let (minting, rslock) = (floor.clone(), Contender::open("rslock", url).await);
    let distributed = Contender::open("distributed-lock", url).await;
    Duel::new(store, "64 tasks, own names, cores awake")
        .awake()
        .with(MINTING, How::Many(call(move |task| minting.clone().minting(task))))
        .with(OURS, How::Many(pairs_of(ours)))
        .with("rslock, which mints none", How::Many(pairs_of(&rslock)))
        .with("distributed-lock, which mints none", How::Many(pairs_of(&distributed)))
        .row("", OURS, One(MINTING), Rate, AtLeast(0.9))
        .row("", OURS, One("rslock, which mints none"), Rate, None)
        .row("", OURS, One("distributed-lock, which mints none"), Rate, None)
}

async fn one_name(store: &str, url: &str, ours: &Contender) -> Duel {
    let mut duel = Duel::new(store, "16 tasks on one name, cores awake")
        .awake()
        .with(OURS, How::Tasks(vec![ours.clone()]))
        .with(EACH, How::Tasks(Contender::each("leasehold", url, 16).await))
        .with("distributed-lock", {
            How::Tasks(vec![Contender::open("distributed-lock", url).await])
        });
    for (name, kind) in RSLOCK {
        duel = duel.with(name, How::Tasks(vec![Contender::open(kind, url).await]));
    }
    for ours in [OURS, EACH] {
        duel = duel
            .row("", ours, One(RSLOCK[0].0), Rate, AtLeast(40.0))
            .row("", ours, Best(BEST, POLLING), Rate, AtLeast(2.5))
            .row("", ours, One("distributed-lock"), Rate, None)
            .row("", ours, Just("one", 1.0), Counted(SCRIPTS), AtMost(3.0));
    }
    duel
}

async fn processes(store: &str, url: &str) -> Duel {
    const OURS: &str = "leasehold";
    let mut duel = Duel::new(store, "8 processes × 4 tasks on one name, cores awake")
        .awake()
        .with(OURS, How::Processes(Children::start("leasehold", url, 8, 4).await));
    for (name, kind) in RSLOCK {
        duel = duel.with(name, How::Processes(Children::start(kind, url, 8, 4).await));
    }
    duel.row("", OURS, One(RSLOCK[0].0), Rate, AtLeast(20.0))
        .row("", OURS, Best(BEST, POLLING), Rate, AtLeast(1.8))
        .row("", OURS, Just("one", 1.0), Counted(SCRIPTS), AtMost(3.0))
}

async fn paced(store: &str, url: &str, floor: &bare::Redis, ours: Contender) -> Duel {
    let floor = floor.clone();
    let rslock = Contender::open("rslock", url).await;
    let mut duel =
        Duel::new(store, "16 tasks hold 10 ms, think 50 ms, cores awake: release to acquired")
            .awake()
            .with("one PING", How::PacedCalls(call(move |_| floor.clone().pings(1))))
            .with(OURS, How::Paced(vec![ours]))
            .with(EACH, How::Paced(Contender::each("leasehold", url, 16).await))
            .with(RSLOCK[0].0, How::Paced(vec![rslock]));
    for ours in [OURS, EACH] {
        duel = duel.row("", ours, One("one PING"), P50, AtMost(1.5)).row(
            "",
            ours,
            One(RSLOCK[0].0),
            P99,
            AtMost(0.05),
        );
    }
    duel
}

async fn info(mut connection: MultiplexedConnection, section: &str) -> String {
    redis::cmd("INFO").arg(section).query_async(&mut connection).await.unwrap()
}

/// The server's count of scripts, heartbeats of waiting places included.
fn scripts(connection: MultiplexedConnection) -> Count {
    Box::new(move || {
        let connection = connection.clone();
        Box::pin(async move {
            let stats = info(connection, "commandstats").await;
            let calls = |line: &str| {
                let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
                let calls = rest.split(',').next()?.parse::<f64>().ok()?;
                ["eval", "evalsha"].contains(&name).then_some(calls)
            };
            stats.lines().filter_map(calls).sum()
        })
    })
}

/// 10,000 held locks, once.
struct Held {
    store: String,
    url: String,
    connection: MultiplexedConnection,
}

const LOCKS: usize = 10_000;
const LEASE: Duration = Duration::from_secs(30);

#[async_trait]
impl Contest for Held {
    fn title(&self) -> String {
        format!("{}, 10,000 locks held with a lease of 30 s", self.store)
    }

    fn weight(&self) -> f64 {
        0.0
    }

    /// Renewals are spread after a third of the lease, and then seen for a whole one.
    fn once(&self) -> Option<Duration> {
        Some(LEASE.mul_f64(1.5))
    }

    async fn round(&mut self, _: Duration) -> Result<Vec<Ratio>, Trouble> {
        let client = leasehold::connect(self.url.as_str()).await?;
        let server = info(self.connection.clone(), "server").await;
        let pid = server.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap();
        let held = hold(&client, pid.trim().parse()?, LOCKS, LEASE, LEASE).await;
        client.close().await;
        let row = |what, percent| {
            let what = format!("renewal of 10,000 locks held with a lease of 30 s, {what}");
            let ratio = Ratio::new(&self.store, what, "a core", "% of a core");
            ratio.wanted(AtMost(0.02)).of(percent, 100.0)
        };
        Ok(vec![row("client", held.client), row("server", held.server)])
    }
}
