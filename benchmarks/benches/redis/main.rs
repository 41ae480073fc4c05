//! One Redis: floors, ours and peers in one run. `cargo bench -p benchmarks --bench redis`, or with
//! `-- PART…` only some of: `one`, `many`, `handoff`, `processes`, `wake`, `renewal`.
//!
//! All but the renewals are measured with the cores kept awake (`measure::Awake`). Handoffs are
//! counted only where the holder changes: who takes its own lock again hands nothing over. Scripts
//! per handoff are the server's own count of EVALSHA and EVAL, heartbeats of waiting places included.
#![allow(clippy::unwrap_used)]

mod contended;
mod floor;
mod measure;
mod processes;
mod renewal;

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::{Redis, RedisOptions, Server as _};
use lock_core::{
    Backend, Env as _, Init, LockClient, LockName, OwnerId, OwnerLabel, Release, Request, SystemEnv,
};
use redis::{AsyncConnectionConfig, Client};

use self::{
    contended::{Contender, Turn, compete, handoffs, round_trip, wake_ups},
    floor::{Floor, Scripts, rslock},
    measure::{Awake, kind, latencies, rates},
};

pub(crate) const LEASE: Duration = Duration::from_secs(10);
pub(crate) const WAIT: Duration = Duration::from_secs(60);
pub(crate) const RUN: Duration = Duration::from_secs(2);

async fn ours(client: LockClient, task: usize) {
    let name = LockName::new(format!("own {task}")).unwrap();
    let guard = client.lock(name).lease(LEASE).wait(WAIT).acquire().await.unwrap();
    guard.release().await.unwrap();
}

/// The same without the client: the backend's own calls.
async fn bare_backend(store: Arc<dyn Backend>) {
    let (name, label) = (LockName::new("own 0").unwrap(), OwnerLabel::new("bench").unwrap());
    let owner = OwnerId::from_bits(SystemEnv.random());
    let request = Request::new(name, owner, label, LEASE, SystemEnv.now());
    let grant = store.try_acquire(&request).await.unwrap().granted().unwrap();
    store.release(&grant, Release::default()).await.unwrap();
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
    floor: Floor,
    connection: redis::aio::MultiplexedConnection,
    manager: rslock::LockManager,
}

impl Bench {
    async fn start() -> Self {
        let server = Redis::start(RedisOptions::new()).await.unwrap();
        let url = format!("redis://{}", server.address());
        let store = backend_redis::connect(&url).await.unwrap();
        store.init(&Init { first_use: true, ..Init::default() }).await.unwrap();
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let client = Client::open(url.as_str()).unwrap();
        let connection =
            client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        Self {
            client: LockClient::new(Arc::clone(&store)),
            store,
            floor: Floor::new(connection.clone()),
            manager: rslock::LockManager::new(vec![url.as_str()]),
            connection,
            server,
            url,
        }
    }

    fn kinds(&self) -> Vec<(&'static str, measure::Call)> {
        let (bare, minting) = (self.floor.clone(), self.floor.clone());
        let (client, manager) = (self.client.clone(), self.manager.clone());
        vec![
            kind("bare SET NX PX + compare-and-delete", move |task| bare.clone().bare(task)),
            kind("the same, minting a token", move |task| minting.clone().minting(task)),
            kind("leasehold", move |task| ours(client.clone(), task)),
            kind("rslock", move |task| rslock(manager.clone(), task)),
        ]
    }

    async fn one(&self) {
        println!("\none task, acquire and release, median");
        let pings = self.floor.clone();
        let mut kinds = self.kinds();
        kinds.push(kind("two PINGs", move |_| pings.clone().pings(2)));
        let store = Arc::clone(&self.store);
        kinds.push(kind("leasehold's backend alone", move |_| bare_backend(store.clone())));
        let scripts = Scripts::load(self.connection.clone()).await;
        kinds.push(kind("its scripts by hand", move |_| scripts.clone().pair()));
        if let [bare, minting, own, ..] = latencies(&kinds).await[..] {
            println!(
                "  leasehold / bare pair: {:.2}; token's price: {:.2}",
                own / bare,
                minting / bare
            );
        }
    }

    async fn many(&self) {
        println!("\n64 tasks on names of their own, pairs");
        if let [bare, minting, own, _] = rates(self.kinds()).await[..] {
            println!(
                "  leasehold / minting pair: {:.2}; / bare pair: {:.2}",
                own / minting,
                own / bare
            );
        }
    }

    /// Sixteen tasks that do nothing but take turns.
    async fn race(&self, label: &str, name: &'static str, contenders: &[Contender]) -> f64 {
        let before = scripts(&self.server).await;
        let mut turns =
            compete(contenders, 16, 0, name, (RUN, Duration::ZERO, Duration::ZERO)).await;
        let rate = handoffs(label, &mut turns);
        if matches!(contenders, [Contender::Leasehold(_), ..]) {
            let per = (scripts(&self.server).await - before) / turns.len() as f64;
            println!("  scripts per handoff: {per:.2}");
        }
        rate
    }

    async fn handoff(&self) {
        println!("\n16 tasks on one name");
        let own = [Contender::Leasehold(self.client.clone())];
        let own = self.race("leasehold, one process", "one", &own).await;
        let mut apart = Vec::new();
        for _ in 0..16 {
            apart.push(Contender::leasehold(&self.url).await);
        }
        self.race("leasehold, a connection per task", "apart", &apart).await;
        for (label, pause) in PAUSES {
            let peer = [Contender::rslock(&self.url, pause.map(Duration::from_millis))];
            let peer = self.race(label, "rslock one", &peer).await;
            println!("  leasehold / this: {:.1}", own / peer.max(0.5));
        }
        let peer = [Contender::distributed(&self.url).await];
        let peer = self.race("distributed-lock, Redis, defaults", "distributed one", &peer).await;
        println!("  leasehold / this: {:.1}", own / peer.max(0.5));
    }

    async fn processes(&self) {
        println!("\n8 processes with 4 tasks each, on one name");
        let before = scripts(&self.server).await;
        let mut turns = processes::run("leasehold", &self.url).await;
        let own = handoffs("leasehold", &mut turns);
        let per = (scripts(&self.server).await - before) / turns.len() as f64;
        let mut shares = [0_u32; 32];
        turns.iter().for_each(|turn| shares[turn.task] += 1);
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        println!("  scripts per handoff: {per:.2}; shares of tasks from {least} to {most}");
        for (label, pause) in PAUSES {
            let pause = pause.map_or_else(|| "defaults".to_owned(), |pause| pause.to_string());
            let mut turns = processes::run(&pause, &self.url).await;
            let peer = if turns.is_empty() { 0.0 } else { handoffs(label, &mut turns) };
            println!("  leasehold / this: {:.1}", own / peer.max(0.5));
        }
    }

    async fn wake(&self) {
        println!(
            "\nfrom a release to the next one's turn: 16 tasks hold for 10 ms and think for 50 ms"
        );
        let pace = (Duration::from_secs(5), Duration::from_millis(10), Duration::from_millis(50));
        let gaps = async |label: &str, contenders: &[Contender]| {
            let mut turns: Vec<Turn> = compete(contenders, 16, 0, "wake", pace).await;
            wake_ups(label, &mut turns)
        };
        let trip = round_trip(self.connection.clone()).await;
        let own =
            gaps("leasehold, one process", &[Contender::Leasehold(self.client.clone())]).await;
        let mut apart = Vec::new();
        for _ in 0..16 {
            apart.push(Contender::leasehold(&self.url).await);
        }
        let apart = gaps("leasehold, a connection per task", &apart).await;
        let peer = gaps("rslock, defaults", &[Contender::rslock(&self.url, None)]).await;
        println!("  p50 / round trip: {:.2}, apart {:.2}", own.0 / trip, apart.0 / trip);
        println!(
            "  rslock's p99 / leasehold's: {:.1}, apart {:.1}",
            peer.1 / own.1,
            peer.1 / apart.1
        );
    }
}

const PAUSES: [(&str, Option<u64>); 4] = [
    ("rslock, defaults", None),
    ("rslock, 5 ms", Some(5)),
    ("rslock, 2 ms", Some(2)),
    ("rslock, 1 ms", Some(1)),
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async {
        if processes::child(&arguments).await {
            return;
        }
        let asked: Vec<_> =
            arguments.iter().skip(1).filter(|word| !word.starts_with('-')).collect();
        let wanted = |part: &str| asked.is_empty() || asked.iter().any(|word| *word == part);
        let bench = Bench::start().await;
        if wanted("renewal") {
            renewal::run(&bench.server, &bench.client).await;
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
