//! What a permit of a semaphore and `all` cost beside plain locks, over one Redis.
//!
//! `cargo bench -p measurements --bench several [-- PART… redis://HOST]` runs some of the parts
//! `free`, `contended` and `growth`. With a URL it uses a server of yours, which must have no other
//! load but a program that you compare with.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use lock_core::{Init, LockClient, all};
use measurements::bench::{Asked, Awake, Call, LEASE, Seen, Site, call, latencies, many, median};
use redis::aio::MultiplexedConnection;

const PARTS: [&str; 3] = ["free", "contended", "growth"];
const RUN: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;

// The index of each kind of call.
const LOCK: usize = 0;
const PERMIT: usize = 1;
const TEN: usize = 2;
const ALL: usize = 3;

struct Bench {
    url: String,
    client: LockClient,
    connection: MultiplexedConnection,
    _server: Option<Site>,
}

/// Acquire and release of a permit, with a client for each task.
fn permits(clients: &[LockClient], name: &'static str, permits: u32, hold: Duration) -> Call {
    let clients: Arc<[LockClient]> = clients.into();
    call(move |task| {
        let client = clients[task].clone();
        async move {
            let permit = client.semaphore(name, permits).lease(LEASE).acquire().await.unwrap();
            if !hold.is_zero() {
                tokio::time::sleep(hold).await;
            }
            permit.release().await.unwrap();
        }
    })
}

/// A plain lock that all tasks want.
fn locks(clients: &[LockClient], name: &'static str) -> Call {
    let clients: Arc<[LockClient]> = clients.into();
    call(move |task| {
        let client = clients[task].clone();
        async move {
            client.lock(name).lease(LEASE).acquire().await.unwrap().release().await.unwrap();
        }
    })
}

impl Bench {
    async fn start(url: Option<&str>) -> Self {
        let (url, server) = match url {
            Some(url) => (url.to_owned(), None),
            None => {
                let site = Site::start("redis").await;
                (site.url().to_owned(), Some(site))
            }
        };
        let store = leasehold::open(&*url).await.unwrap();
        store.init(&Init::new().with_first_use(true)).await.unwrap();
        let connection = redis::Client::open(url.as_str()).unwrap();
        let connection = connection.get_multiplexed_async_connection().await.unwrap();
        Self { client: LockClient::new(store), url, connection, _server: server }
    }

    /// Clients with a connection each.
    async fn clients(&self, count: usize) -> Vec<LockClient> {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(leasehold::connect(&*self.url).await.unwrap());
        }
        clients
    }

    /// How many scripts the server has run, by its own count.
    async fn scripts(&self) -> f64 {
        let mut connection = self.connection.clone();
        let mut info = redis::cmd("INFO");
        let stats: String = info.arg("commandstats").query_async(&mut connection).await.unwrap();
        let of = |name: &str| {
            let field = format!("cmdstat_{name}:calls=");
            let value = stats.lines().find_map(|line| line.strip_prefix(&field)?.split(',').next());
            value.map_or(0.0, |value| value.parse().unwrap())
        };
        of("evalsha") + of("eval")
    }

    /// One task, and no other load.
    async fn free(&self) {
        println!("\none task, acquire and release, median");
        let one = [self.client.clone()];
        let ten = |together: bool| {
            let client = self.client.clone();
            call(move |_| {
                let locks: Vec<_> =
                    (0..10).map(|at| client.lock(format!("ten {at}")).lease(LEASE)).collect();
                async move {
                    if together {
                        all(locks).acquire().await.unwrap().release().await.unwrap();
                        return;
                    }
                    let mut guards = Vec::new();
                    for lock in locks {
                        guards.push(lock.acquire().await.unwrap());
                    }
                    join_all(guards.into_iter().map(|guard| guard.release())).await;
                }
            })
        };
        let kinds = [
            ("a lock", locks(&one, "lock")),
            ("a permit of 3", permits(&one, "free", 3, Duration::ZERO)),
            ("10 locks, one after the other", ten(false)),
            ("`all` of 10", ten(true)),
        ];
        let seen = latencies(&kinds).await;
        println!(
            "  permit / lock: {:.2}; `all` of 10 / 10 locks: {:.2}",
            seen.ratio(PERMIT, LOCK),
            seen.ratio(ALL, TEN)
        );
        for (label, call) in &kinds {
            let before = self.scripts().await;
            for _ in 0..100 {
                call(0).await;
            }
            println!("  scripts for {label}: {:.2}", (self.scripts().await - before) / 100.0);
        }
    }

    /// Prints the medians of rounds in turn.
    async fn race(&self, tasks: usize, kinds: &[(String, Call)]) {
        let mut rounds = vec![Vec::new(); kinds.len()];
        for round in 0..=ROUNDS {
            for ((_, call), rounds) in kinds.iter().zip(&mut rounds) {
                let before = self.scripts().await;
                let seen = many(call, tasks, RUN).await;
                // The first round warms up.
                if round > 0 {
                    let scripts = (self.scripts().await - before) / seen.count as f64;
                    rounds.push((seen, scripts));
                }
            }
        }
        for ((label, _), rounds) in kinds.iter().zip(&rounds) {
            let median = |of: &dyn Fn(&(Seen, f64)) -> f64| median(rounds.iter().map(of).collect());
            println!(
                "{label:<46} {:>8.0} /s  p50 {:>9.0} µs  p99 {:>9.0} µs  scripts {:>6.1}",
                median(&|(seen, _)| seen.per_second),
                median(&|(seen, _)| seen.p50),
                median(&|(seen, _)| seen.p99),
                median(&|(_, scripts)| *scripts),
            );
        }
    }

    async fn contended(&self) {
        println!("\n16 tasks with a connection each, in turns");
        let clients = self.clients(16).await;
        let kinds = [
            ("a lock".to_owned(), locks(&clients, "contended")),
            ("a permit of 1".to_owned(), permits(&clients, "of one", 1, Duration::ZERO)),
            ("a permit of 3".to_owned(), permits(&clients, "of three", 3, Duration::ZERO)),
        ];
        self.race(16, &kinds).await;
    }

    async fn growth(&self) {
        println!("\n8 tasks for one permit of N; the others are held");
        let clients = self.clients(8).await;
        let (mut held, mut kinds) = (Vec::new(), Vec::new());
        for (name, of) in [("of 1", 1), ("of 8", 8), ("of 64", 64), ("of 128", 128)] {
            for _ in 1..of {
                held.push(self.client.semaphore(name, of).lease(LEASE).acquire().await.unwrap());
            }
            kinds.push((format!("N = {of}"), permits(&clients, name, of, Duration::ZERO)));
        }
        self.race(8, &kinds).await;
        drop(held);
        println!("\nN + 8 tasks for N permits, each held for 100 ms: permits in use on average");
        let clients = self.clients(136).await;
        for (name, of) in [("all 1", 1), ("all 8", 8), ("all 64", 64), ("all 128", 128)] {
            let hold = Duration::from_millis(100);
            let turn = permits(&clients, name, of, hold);
            let before = self.scripts().await;
            let seen = many(&turn, of as usize + 8, 2 * RUN).await;
            let scripts = (self.scripts().await - before) / seen.count as f64;
            println!(
                "N = {of:<42} {:>8.1} of {of}, {:.0} /s  scripts {scripts:>6.1}",
                seen.per_second * hold.as_secs_f64(),
                seen.per_second,
            );
        }
    }
}

fn main() {
    let asked = Asked::from_args();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async {
        let bench = Bench::start(asked.find(|word| word.contains("://"))).await;
        let _awake = Awake::keep();
        if asked.wants("free", &PARTS) {
            bench.free().await;
        }
        if asked.wants("contended", &PARTS) {
            bench.contended().await;
        }
        if asked.wants("growth", &PARTS) {
            bench.growth().await;
        }
    });
}
