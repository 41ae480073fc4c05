//! The conformance suite over a bucket in memory.

use std::{process::ExitCode, sync::Arc, time::Duration};

use backend_object_store::{
    Objects,
    cas::{CasBackend, CasOptions},
};
use conformance_tests::{Harness, SetUpError, Store};
use lock_core::{Backend, Error, async_trait};
use object_store::memory::InMemory;

/// A bucket in this process. Its requests take no time, so its leases may be short.
struct InABucket(Arc<InMemory>);

#[async_trait]
impl Harness for InABucket {
    fn name(&self) -> &'static str {
        "object-store/memory"
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        Ok(Store::new("this process", ()))
    }

    async fn connect(&self, _: &str) -> Result<Arc<dyn Backend>, Error> {
        let bucket = Arc::clone(&self.0);
        let mut options = CasOptions::new("object-store");
        options.shortest_lease = Duration::from_millis(100);
        let objects = Objects::new(bucket, "some/prefix")?;
        Ok(Arc::new(CasBackend::open(Arc::new(objects), options).await?))
    }

    fn reaches_processes(&self) -> bool {
        false
    }

    /// The store has no queue, no push and no shared locks, and is for one process.
    fn skips(&self) -> &'static [&'static str] {
        &["fair", "pushes", "shared", "limited_readers", "processes"]
    }
}

fn main() -> ExitCode {
    conformance_tests::main(vec![Arc::new(InABucket(Arc::default()))])
}
