//! The conformance suite on an ensemble of three ZooKeepers; in the soak also on one.

use std::{process::ExitCode, sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{Harness, SetUpError, Store};
use lock_core::{Backend, Error, Init};
use servers::{ZooKeeper, ZooKeeperOptions};

struct OnZooKeeper {
    name: &'static str,
    members: usize,
}

#[async_trait]
impl Harness for OnZooKeeper {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let options = ZooKeeperOptions::new();
        let zookeeper = match self.members {
            1 => ZooKeeper::single(options).await?,
            _ => ZooKeeper::three(options).await?,
        };
        let servers: Vec<_> = zookeeper.endpoints().iter().map(ToString::to_string).collect();
        let url = format!("zookeeper://{}?tick=200ms&timeout=20s", servers.join(","));
        // Entries of dead clients end with their sessions, and a case waits for that.
        let longest_lease = Some(Duration::from_secs(20));
        let init = Init::new().with_first_use(true).with_longest_lease(longest_lease);
        backend_zookeeper::connect(&url).await?.init(&init).await?;
        Ok(Store::new(url, zookeeper))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_zookeeper::connect(address).await
    }

    fn skips(&self) -> &'static [&'static str] {
        &["limited_readers", "hands_over"]
    }

    fn lease(&self) -> Duration {
        // A child has twice as much, and renews after a third of it: so its machine may stall for
        // 6 s. No case asserts that a lock with this lease is still held.
        Duration::from_secs(5)
    }
}

fn main() -> ExitCode {
    let three = OnZooKeeper { name: "zookeeper/three", members: 3 };
    let mut stores: Vec<Arc<dyn Harness>> = vec![Arc::new(three)];
    // What is special about one server, `tests/all` tries, too.
    if std::env::var_os("LEASEHOLD_SOAK").is_some() {
        stores.push(Arc::new(OnZooKeeper { name: "zookeeper/single", members: 1 }));
    }
    conformance_tests::main(stores)
}
