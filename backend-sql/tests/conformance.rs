//! The suite over SQLite, by both strategies.

use std::{process::ExitCode, sync::Arc};

use async_trait::async_trait;
use conformance_tests::{Harness, SetUpError, Store};
use lock_core::{Backend, Error};

struct Sqlite {
    name: &'static str,
    strategy: &'static str,
}

#[async_trait]
impl Harness for Sqlite {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("locks.db");
        Ok(Store::new(format!("sqlite:{}?strategy={}", path.display(), self.strategy), folder))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_sql::sqlite::connect(address).await
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
        Arc::new(Sqlite { name: "sqlite/primary-key", strategy: "primary-key" }),
        Arc::new(Sqlite { name: "sqlite/optimistic", strategy: "optimistic" }),
    ])
}
