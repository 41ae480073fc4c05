//! The conformance suite on one etcd, and on a cluster of three.

use std::{process::ExitCode, sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{
    Harness, SetUpError, Store,
    kit::{Etcd, EtcdOptions},
};
use lock_core::{Backend, Error, Init};

struct OnEtcd {
    name: &'static str,
    members: usize,
}

#[async_trait]
impl Harness for OnEtcd {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let options = EtcdOptions::new();
        let etcd = match self.members {
            1 => Etcd::single(options).await?,
            _ => Etcd::three(options).await?,
        };
        let endpoints: Vec<_> = etcd.endpoints().iter().map(ToString::to_string).collect();
        let url = format!("etcd://{}", endpoints.join(","));
        // Entries of dead clients end with their leases, and a case waits for that.
        let longest_lease = Some(Duration::from_secs(20));
        let init = Init::new().with_first_use(true).with_longest_lease(longest_lease);
        backend_etcd::connect(&url).await?.init(&init).await?;
        Ok(Store::new(url, etcd))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_etcd::connect(address).await
    }

    fn skips(&self) -> &'static [&'static str] {
        &["limited_readers"]
    }

    fn lease(&self) -> Duration {
        // etcd's shortest lease with the kit's fast timers.
        Duration::from_secs(1)
    }
}

fn main() -> ExitCode {
    conformance_tests::main(vec![
        Arc::new(OnEtcd { name: "etcd/single", members: 1 }),
        Arc::new(OnEtcd { name: "etcd/three", members: 3 }),
    ])
}
