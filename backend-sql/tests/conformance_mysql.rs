//! The suite over MariaDB, by both strategies, each on a server of its own.

use std::{process::ExitCode, sync::Arc};

use async_trait::async_trait;
use conformance_tests::{
    Harness, SetUpError, Store,
    kit::{Mariadb, MariadbOptions, Server as _},
};
use lock_core::{Backend, Error, Init};

struct OnMariadb {
    name: &'static str,
    strategy: &'static str,
}

#[async_trait]
impl Harness for OnMariadb {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let server = Mariadb::start(MariadbOptions::new()).await?;
        let (address, strategy) = (server.address(), self.strategy);
        let url = format!("mysql://root@{address}/test?ssl-mode=disabled&strategy={strategy}");
        backend_sql::mysql::connect(&url).await?.init(&Init::default()).await?;
        Ok(Store::new(url, server))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_sql::mysql::connect(address).await
    }

    fn skips(&self) -> &'static [&'static str] {
        // Waiters look for themselves: there is no queue.
        &[
            "places_are_served_in_order",
            "nobody_barges_past_a_place",
            "a_withdrawn_place_is_passed_over",
            "a_dead_place_is_passed_over_in_time",
            "a_request_that_a_release_carries_goes_to_the_end",
            "leaving_a_place_gives_back_what_it_was_granted",
            "who_stands_further_back_asks_more_seldom",
            "a_release_does_not_wake_the_whole_herd",
        ]
    }
}

fn main() -> ExitCode {
    conformance_tests::main(vec![
        Arc::new(OnMariadb { name: "mysql/primary-key", strategy: "primary-key" }),
        Arc::new(OnMariadb { name: "mysql/optimistic", strategy: "optimistic" }),
    ])
}
