//! The suite through a migration in phase `Both`, over pairs of stores, each by its URL.

#![allow(clippy::unwrap_used)]

use std::{
    any::Any,
    collections::HashMap,
    process::ExitCode,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use conformance_tests::{
    Harness, SetUpError, Store,
    kit::{Etcd, EtcdOptions, Postgres, PostgresOptions, Redis, RedisOptions, Server as _},
};
use leasehold::{
    Backend, Error, Init,
    memory::Memory,
    migration::{Migration, Phase},
};

/// Cases about order: a migration does not promise any in phase `Both`.
const UNFAIR: [&str; 6] = [
    "places_are_served_in_order",
    "nobody_barges_past_a_place",
    "a_withdrawn_place_is_passed_over",
    "a_dead_place_is_passed_over_in_time",
    "a_request_that_a_release_carries_goes_to_the_end",
    "leaving_a_place_gives_back_what_it_was_granted",
];

const PROCESSES: [&str; 3] = [
    "a_killed_holders_lock_is_free_within_its_lease",
    "a_paused_holder_learns_of_its_loss_and_is_fenced",
    "processes_count_without_losing_an_update",
];

/// A kind of store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Memory,
    Sqlite,
    Redis,
    Etcd,
    Postgres,
}

/// A store that runs: its URL, and what keeps it running.
type Running = (String, Box<dyn Any + Send + Sync>);

impl Kind {
    async fn start(self) -> Result<Running, SetUpError> {
        let first_use = Init { first_use: true, ..Init::default() };
        let running: Running = match self {
            Self::Memory => unreachable!("a store in memory has no URL of its own"),
            Self::Sqlite => {
                let folder = tempfile::tempdir()?;
                let url = format!("sqlite:{}", folder.path().join("locks.db").display());
                return Ok((url, Box::new(folder)));
            }
            Self::Redis => {
                let server = Redis::start(RedisOptions::new()).await?;
                (format!("redis://{}", server.address()), Box::new(server))
            }
            Self::Etcd => {
                let etcd = Etcd::single(EtcdOptions::new()).await?;
                let endpoints: Vec<_> = etcd.endpoints().iter().map(ToString::to_string).collect();
                (format!("etcd://{}", endpoints.join(",")), Box::new(etcd))
            }
            Self::Postgres => {
                let server = Postgres::start(PostgresOptions::new()).await?;
                let url = format!("postgres://postgres@{}/postgres", server.address());
                (url, Box::new(server))
            }
        };
        leasehold::open(&running.0).await?.init(&first_use).await?;
        Ok(running)
    }
}

/// Percent-encodes all but the plainest characters.
fn encoded(url: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    url.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Pairs of stores in memory, by address.
static PAIRS: LazyLock<Mutex<HashMap<String, [Memory; 2]>>> = LazyLock::new(Mutex::default);

struct Moving {
    name: &'static str,
    from: Kind,
    to: Kind,
    phase: Phase,
}

impl Moving {
    fn in_memory(&self) -> bool {
        self.from == Kind::Memory && self.to == Kind::Memory
    }
}

#[async_trait]
impl Harness for Moving {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        if self.in_memory() {
            PAIRS.lock().unwrap().insert(self.name.into(), [Memory::new(), Memory::new()]);
            return Ok(Store::new(self.name, ()));
        }
        let (from, to) = (self.from.start().await?, self.to.start().await?);
        let phase = self.phase;
        let url = format!("migrate:{phase}?from={}&to={}", encoded(&from.0), encoded(&to.0));
        Ok(Store::new(url, (from.1, to.1)))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        if !self.in_memory() {
            return leasehold::open(address).await;
        }
        let [old, new] = PAIRS.lock().unwrap().get(address).unwrap().clone();
        Ok(Arc::new(Migration::new(Arc::new(old), Arc::new(new), self.phase).await?))
    }

    fn reaches_processes(&self) -> bool {
        !self.in_memory()
    }

    fn lease(&self) -> Duration {
        match (self.from, self.to) {
            // With the kit's fast timers, etcd's smallest.
            (Kind::Etcd, _) | (_, Kind::Etcd) => Duration::from_secs(1),
            _ if self.in_memory() => Duration::from_millis(300),
            _ => Duration::from_millis(600),
        }
    }

    fn skips(&self) -> &'static [&'static str] {
        match (self.in_memory(), self.phase) {
            (true, Phase::Both) => const { &concat(PROCESSES, UNFAIR) },
            (true, _) => &PROCESSES,
            (false, _) if self.from == Kind::Sqlite => &LOOKING,
            (false, _) => &UNFAIR,
        }
    }
}

/// Where one store pushes nothing, besides.
const LOOKING: [&str; 7] = [
    UNFAIR[0],
    UNFAIR[1],
    UNFAIR[2],
    UNFAIR[3],
    UNFAIR[4],
    UNFAIR[5],
    "a_release_does_not_wake_the_whole_herd",
];

const fn concat(one: [&'static str; 3], two: [&'static str; 6]) -> [&'static str; 9] {
    [one[0], one[1], one[2], two[0], two[1], two[2], two[3], two[4], two[5]]
}

fn main() -> ExitCode {
    let moving =
        |name, from, to, phase| -> Arc<dyn Harness> { Arc::new(Moving { name, from, to, phase }) };
    conformance_tests::main(vec![
        moving("memory-memory/old", Kind::Memory, Kind::Memory, Phase::Old),
        moving("memory-memory/both", Kind::Memory, Kind::Memory, Phase::Both),
        moving("memory-memory/new", Kind::Memory, Kind::Memory, Phase::New),
        moving("redis-etcd/both", Kind::Redis, Kind::Etcd, Phase::Both),
        moving("sqlite-postgres/both", Kind::Sqlite, Kind::Postgres, Phase::Both),
    ])
}
