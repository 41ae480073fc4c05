//! One Redis: floors, ours and peers in one run. `cargo bench -p benchmarks --bench redis`, or with
//! `-- PART…` only some of: `one`, `many`, `handoff`, `processes`, `wake`, `renewal`.
//!
//! All but the renewals are measured with the cores kept awake (`Awake`). Handoffs are
//! counted only where the holder changes: who takes its own lock again hands nothing over. Scripts
//! per handoff are the server's own count of EVALSHA and EVAL, heartbeats of waiting places included.
#![allow(clippy::unwrap_used)]

mod floor;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use conformance_tests::kit::{Redis, RedisOptions, Server as _};
use lock_core::{
    Backend, Env as _, Init, LockClient, LockName, OwnerId, OwnerLabel, ReleaseOptions, Request,
    SystemEnv,
};
use redis::{AsyncConnectionConfig, Client};

use benchmarks::{
    Awake, Call, Children, Contender, LEASE, Pace, Seen, Turn, bare, call, child, compete, hold,
    latencies, pairs, pairs_of, quantile, rates, seen,
};

use self::floor::Scripts;

const RUN: Duration = Duration::from_secs(2);

// The places of the kinds of calls.
const BARE: usize = 0;
const MINTING: usize = 1;
const OWN: usize = 2;
const RSLOCK: usize = 3;
const SCRIPTS: usize = 6;

/// The same without the client: the backend's own calls.
async fn bare_backend(store: Arc<dyn Backend>) {
    let (name, label) = (LockName::new("own 0").unwrap(), OwnerLabel::new("bench").unwrap());
    let owner = OwnerId::from_bits(SystemEnv.random());
    let request = Request::new(name, owner, label, LEASE, SystemEnv.now());
    let grant = store.try_acquire(&request).await.unwrap().granted().unwrap();
    store.release(&grant, ReleaseOptions::default()).await.unwrap();
}

/// How many scripts the server has run.
async fn scripts(server: &Redis) -> f64 {
    let stats = server.cli(&["INFO", "commandstats"]).await.unwrap();
    let of = |name: &str| {
        let field = format!("cmdstat_{name}:calls=");
        let value = stats.lines().find_map(|line| line.strip_prefix(&field)?.split(',').next());
        value.map_or(0.0, |value| value.parse().unwrap())
    };
    of("evalsha") + of("eval")
}

struct Bench {
    server: Redis,
    url: String,
    store: Arc<dyn Backend>,
    client: LockClient,
    floor: bare::Redis,
    connection: redis::aio::MultiplexedConnection,
    rslock: Contender,
}

impl Bench {
    async fn start() -> Self {
        let server = Redis::start(RedisOptions::new()).await.unwrap();
        let url = format!("redis://{}", server.address());
        let store = backend_redis::connect(&url).await.unwrap();
        store.init(&Init::new().with_first_use(true)).await.unwrap();
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let client = Client::open(url.as_str()).unwrap();
        let connection =
            client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        Self {
            client: LockClient::new(Arc::clone(&store)),
            store,
            floor: bare::Redis::new(connection.clone()),
            rslock: Contender::open("rslock", &url).await,
            connection,
            server,
            url,
        }
    }

    fn kinds(&self) -> Vec<(&'static str, Call)> {
        let (bare, minting) = (self.floor.clone(), self.floor.clone());
        vec![
            ("bare SET NX PX + compare-and-delete", call(move |task| bare.clone().bare(task))),
            ("the same, minting a token", call(move |task| minting.clone().minting(task))),
            ("leasehold", pairs(&self.client)),
            ("rslock", pairs_of(&self.rslock)),
        ]
    }

    async fn one(&self) {
        println!("\none task, acquire and release, median");
        let pings = self.floor.clone();
        let mut kinds = self.kinds();
        kinds.push(("two PINGs", call(move |_| pings.clone().pings(2))));
        let store = Arc::clone(&self.store);
        kinds.push(("leasehold's backend alone", call(move |_| bare_backend(store.clone()))));
        let scripts = Scripts::load(self.connection.clone()).await;
        kinds.push(("its scripts by hand", call(move |_| scripts.clone().pair())));
        let seen = latencies(&kinds).await;
        println!(
            "  leasehold / bare pair: {:.2}; its scripts: {:.2}; token's price: {:.2}",
            seen.ratio(OWN, BARE),
            seen.ratio(SCRIPTS, BARE),
            seen.ratio(MINTING, BARE)
        );
    }

    async fn many(&self) {
        println!("\n64 tasks on names of their own, pairs");
        let seen = rates(&self.kinds()).await;
        println!(
            "  leasehold / minting pair: {:.2}; / bare pair: {:.2}; / rslock: {:.2}",
            seen.ratio(OWN, MINTING),
            seen.ratio(OWN, BARE),
            seen.ratio(OWN, RSLOCK)
        );
    }

    /// Sixteen tasks that do nothing but take turns.
    async fn race(&self, label: &str, contenders: &[Contender]) -> f64 {
        let before = scripts(&self.server).await;
        let mut turns = compete(contenders, 16, 0, label, Pace::fast(RUN)).await;
        let seen = handoffs(label, &mut turns);
        if matches!(contenders, [Contender::Leasehold(_), ..]) {
            let per = (scripts(&self.server).await - before) / turns.len() as f64;
            println!("  scripts per handoff: {per:.2}");
        }
        seen.per_second
    }

    async fn apart(&self) -> Vec<Contender> {
        Contender::each("leasehold", &self.url, 16).await
    }

    async fn handoff(&self) {
        println!("\n16 tasks on one name");
        let own = [Contender::Leasehold(self.client.clone())];
        let own = self.race("leasehold, one process", &own).await;
        self.race("leasehold, a connection per task", &self.apart().await).await;
        for kind in PEERS.into_iter().chain(["distributed-lock"]) {
            let peer = self.race(kind, &[Contender::open(kind, &self.url).await]).await;
            println!("  leasehold / this: {:.1}", own / peer.max(0.5));
        }
    }

    async fn processes(&self) {
        println!("\n8 processes with 4 tasks each, on one name");
        let before = scripts(&self.server).await;
        let mut ours = Children::start("leasehold", &self.url, 8, 4).await;
        let mut turns = ours.compete(RUN).await;
        let own = handoffs("leasehold", &mut turns).per_second;
        let per = (scripts(&self.server).await - before) / turns.len() as f64;
        let mut shares = [0_u32; 32];
        turns.iter().for_each(|turn| shares[turn.task] += 1);
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        println!("  scripts per handoff: {per:.2}; shares of tasks from {least} to {most}");
        for kind in PEERS {
            let mut peer = Children::start(kind, &self.url, 8, 4).await;
            let peer = handoffs(kind, &mut peer.compete(RUN).await);
            println!("  leasehold / this: {:.1}", own / peer.per_second.max(0.5));
        }
    }

    async fn wake(&self) {
        println!(
            "\nfrom a release to the next one's turn: 16 tasks hold for 10 ms and think for 50 ms"
        );
        let [span, hold, think] = [5_000, 10, 50].map(Duration::from_millis);
        let gaps = async |label: &str, contenders: &[Contender]| {
            let mut turns = compete(contenders, 16, 0, label, Pace { span, hold, think }).await;
            let seen = seen(&mut turns);
            println!("{label:<46} p50 {:>9.1} µs  p99 {:>9.1} µs", seen.p50, seen.p99);
            seen
        };
        let trip = self.round_trip().await;
        let own = [Contender::Leasehold(self.client.clone())];
        let own = gaps("leasehold, one process", &own).await;
        let apart = gaps("leasehold, a connection per task", &self.apart().await).await;
        let peer = gaps("rslock", &[Contender::open("rslock", &self.url).await]).await;
        println!("  p50 / round trip: {:.2}, apart {:.2}", own.p50 / trip, apart.p50 / trip);
        println!(
            "  rslock's p99 / leasehold's: {:.1}, apart {:.1}",
            peer.p99 / own.p99,
            peer.p99 / apart.p99
        );
    }

    /// Median of a round trip while the connection has nothing else to do, at the pace of the wake-ups.
    async fn round_trip(&self) -> f64 {
        let mut spans = Vec::new();
        for _ in 0..300 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let start = Instant::now();
            self.floor.clone().pings(1).await;
            spans.push(start.elapsed());
        }
        let micros = quantile(&mut spans, 0.5);
        println!("{:<46} p50 {micros:>9.1} µs", "one PING");
        micros
    }

    async fn renewal(&self) {
        println!("\n10,000 held locks with a lease of 30 s, processor time of renewal");
        let (lease, server) = (Duration::from_secs(30), self.server.process().pid().unwrap());
        let held = hold(&self.client, server, 10_000, lease, lease).await;
        println!("{:<46} {:>9.2} % of a core", "client", held.client);
        println!("{:<46} {:>9.2} % of a core", "server", held.server);
    }
}

/// With these pauses between their attempts, in milliseconds; the first with its own.
const PEERS: [&str; 4] = ["rslock", "rslock 5", "rslock 2", "rslock 1"];

fn handoffs(label: &str, turns: &mut [Turn]) -> Seen {
    let (seen, grants) = (seen(turns), turns.len() as f64 / RUN.as_secs_f64());
    println!("{label:<46} {:>9.0} /s to another holder, of {grants:.0} grants/s", seen.per_second);
    seen
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async {
        if child().await {
            return;
        }
        let asked: Vec<_> =
            arguments.iter().skip(1).filter(|word| !word.starts_with('-')).collect();
        let wanted = |part: &str| asked.is_empty() || asked.iter().any(|word| *word == part);
        let bench = Bench::start().await;
        if wanted("renewal") {
            bench.renewal().await;
        }
        let _awake = Awake::keep();
        if wanted("one") {
            bench.one().await;
        }
        if wanted("many") {
            bench.many().await;
        }
        if wanted("handoff") {
            bench.handoff().await;
        }
        if wanted("processes") {
            bench.processes().await;
        }
        if wanted("wake") {
            bench.wake().await;
        }
    });
}
