//! The suite through a migration: between two stores in memory, and between pairs of real stores.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use conformance_tests::{Harness, SetUpError, Store};
use leasehold::{
    Backend, Error,
    memory::Memory,
    migration::{Migration, Phase},
};
use verification::stores::pairs::{self, Kind};

/// Two stores by their URLs.
struct Pair {
    name: &'static str,
    from: Kind,
    to: Kind,
    phase: Phase,
}

#[async_trait]
impl Harness for Pair {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let (from, to) = (self.from.start(None).await?, self.to.start(None).await?);
        Ok(Store::new(pairs::url(self.phase, &from.0, &to.0), (from.1, to.1)))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        leasehold::open(address).await
    }

    fn lease(&self) -> Duration {
        match (self.from, self.to) {
            // etcd's shortest lease with the kit's fast timers.
            (Kind::Etcd, _) | (_, Kind::Etcd) => Duration::from_secs(1),
            // Redlock shortens the validity by the allowed clock drift.
            (Kind::Redlock, _) | (_, Kind::Redlock) => Duration::from_secs(1),
            _ => Duration::from_millis(600),
        }
    }

    fn skips(&self) -> &'static [&'static str] {
        match (self.phase, self.to) {
            // Waiters have no order in this phase. Redlock keeps no records.
            (Phase::Both, Kind::Redlock) => &["fair", "records", "hands_over"],
            (Phase::Both, _) => &["fair", "hands_over"],
            // The skips of the store that grants in this phase; the stores here are fair.
            (Phase::New, Kind::Etcd) => &["limited_readers", "hands_over"],
            (Phase::Old | Phase::New, _) => &["hands_over"],
        }
    }
}

/// Pairs of stores in memory, by address.
static PAIRS: LazyLock<Mutex<HashMap<String, [Memory; 2]>>> = LazyLock::new(Mutex::default);

struct InMemory(&'static str, Phase);

#[async_trait]
impl Harness for InMemory {
    fn name(&self) -> &'static str {
        self.0
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let mut pairs = PAIRS.lock().unwrap();
        let address = format!("{} {}", self.0, pairs.len());
        pairs.insert(address.clone(), [Memory::new(), Memory::new()]);
        Ok(Store::new(address, ()))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        let [old, new] = PAIRS.lock().unwrap().get(address).unwrap().clone();
        Ok(Arc::new(Migration::new(Arc::new(old), Arc::new(new), self.1).await?))
    }

    fn reaches_processes(&self) -> bool {
        false
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(300)
    }

    fn skips(&self) -> &'static [&'static str] {
        if self.1 == Phase::Both {
            &["processes", "fair", "hands_over"]
        } else {
            &["processes", "hands_over"]
        }
    }
}

pub(crate) fn all() -> Vec<Arc<dyn Harness>> {
    use Kind::{Etcd, Postgres, Redis, Redlock, Sqlite};
    use Phase::{Both, New, Old};
    let pair =
        |name, from, to, phase| -> Arc<dyn Harness> { Arc::new(Pair { name, from, to, phase }) };
    let mut all: Vec<Arc<dyn Harness>> = vec![
        Arc::new(InMemory("memory-memory/old", Old)),
        Arc::new(InMemory("memory-memory/both", Both)),
        Arc::new(InMemory("memory-memory/new", New)),
        pair("redis-etcd/both", Redis, Etcd, Both),
        pair("redis-redlock/both", Redis, Redlock, Both),
        pair("sqlite-postgres/both", Sqlite, Postgres, Both),
    ];
    // Here one store does all the work alone, as in its own run of the suite. The phases themselves
    // are tried in memory above, and by processes in `tests/rolling`.
    if std::env::var_os("LEASEHOLD_SOAK").is_some() {
        all.push(pair("redis-etcd/old", Redis, Etcd, Old));
        all.push(pair("redis-etcd/new", Redis, Etcd, New));
    }
    all
}
