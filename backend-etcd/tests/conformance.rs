//! The suite over one etcd.

use std::{process::ExitCode, sync::Arc, time::Duration};

use async_trait::async_trait;
use conformance_tests::{
    Harness, SetUpError, Store,
    kit::{Etcd, EtcdOptions},
};
use lock_core::{Backend, Error, Init};

struct OnEtcd;

#[async_trait]
impl Harness for OnEtcd {
    fn name(&self) -> &'static str {
        "etcd/single"
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let etcd = Etcd::single(EtcdOptions::new()).await?;
        let endpoints: Vec<_> = etcd.endpoints().iter().map(ToString::to_string).collect();
        let url = format!("etcd://{}", endpoints.join(","));
        // Dead places end with their leases: a case waits for it.
        let init = Init { longest_lease: Some(Duration::from_secs(20)), ..Init::default() };
        backend_etcd::connect(&url).await?.init(&init).await?;
        Ok(Store::new(url, etcd))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_etcd::connect(address).await
    }

    fn lease(&self) -> Duration {
        // With the kit's fast timers, etcd's smallest.
        Duration::from_secs(1)
    }
}

fn main() -> ExitCode {
    conformance_tests::main(vec![Arc::new(OnEtcd)])
}
