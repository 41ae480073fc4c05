//! The suite over the store of this example.

use std::{process::ExitCode, sync::Arc};

use conformance_tests::{Harness, SetUpError, Store};
use leasehold::backend::{Backend, Error, async_trait};
use own_backend::MapStore;

struct InAMap(MapStore);

#[async_trait]
impl Harness for InAMap {
    fn name(&self) -> &'static str {
        "map"
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        Ok(Store::new("this process", ()))
    }

    async fn connect(&self, _: &str) -> Result<Arc<dyn Backend>, Error> {
        Ok(Arc::new(self.0.clone()))
    }

    fn reaches_processes(&self) -> bool {
        false
    }

    /// The store has no queue, no push and no shared locks, cannot raise a token, and is for one
    /// process.
    fn skips(&self) -> &'static [&'static str] {
        &["fair", "pushes", "shared", "records", "hands_over", "raises", "processes"]
    }
}

fn main() -> ExitCode {
    conformance_tests::main(vec![Arc::new(InAMap(MapStore::default()))])
}
