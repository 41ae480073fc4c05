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
        backend_etcd::connect(&url).await?.init(&Init::default()).await?;
        Ok(Store::new(url, etcd))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_etcd::connect(address).await
    }

    fn lease(&self) -> Duration {
        // With the kit's fast timers, etcd's smallest.
        Duration::from_secs(1)
    }

    fn skips(&self) -> &'static [&'static str] {
        // Waiters look for themselves: there is no queue yet.
        &[
            "places_are_served_in_order",
            "nobody_barges_past_a_place",
            "a_withdrawn_place_is_passed_over",
            "a_dead_place_is_passed_over_in_time",
            "a_request_that_a_release_carries_goes_to_the_end",
            "leaving_a_place_gives_back_what_it_was_granted",
        ]
    }
}

fn main() -> ExitCode {
    conformance_tests::main(vec![Arc::new(OnEtcd)])
}
