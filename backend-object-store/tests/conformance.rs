//! The conformance suite over a bucket in memory, and over S3 by the URL that users have.

use std::{process::ExitCode, sync::Arc, time::Duration};

use backend_migration::{Migration, Phase};
use backend_object_store::{
    Objects,
    cas::{CasBackend, CasOptions, CasStore},
};
use conformance_tests::{Harness, SetUpError, Store};
use lock_core::{Backend, Error, Init, Memory, async_trait};
use object_store::memory::InMemory;
use servers::S3;

#[path = "../examples/own_store.rs"]
#[allow(dead_code, reason = "its main")]
mod own_store;

/// The store has no queue, no push and no shared locks, and is for one process.
const OF_ONE_PROCESS: &[&str] = &["fair", "pushes", "shared", "limited_readers", "processes"];

async fn in_this_process(store: Arc<dyn CasStore>) -> Result<Arc<dyn Backend>, Error> {
    let mut options = CasOptions::new("object-store");
    options.shortest_lease = Duration::from_millis(100);
    Ok(Arc::new(CasBackend::open(store, options).await?))
}

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
        in_this_process(Arc::new(Objects::new(bucket, "some/prefix")?)).await
    }

    fn reaches_processes(&self) -> bool {
        false
    }

    fn skips(&self) -> &'static [&'static str] {
        OF_ONE_PROCESS
    }
}

/// The store of the example.
struct OwnStore(Arc<own_store::Table>);

#[async_trait]
impl Harness for OwnStore {
    fn name(&self) -> &'static str {
        "object-store/own"
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        Ok(Store::new("this process", ()))
    }

    async fn connect(&self, _: &str) -> Result<Arc<dyn Backend>, Error> {
        in_this_process(Arc::clone(&self.0) as _).await
    }

    fn reaches_processes(&self) -> bool {
        false
    }

    fn skips(&self) -> &'static [&'static str] {
        OF_ONE_PROCESS
    }
}

/// A migration between a store in memory and a bucket, while every lock is in both.
struct Moving {
    name: &'static str,
    memory: Memory,
    bucket: Arc<InMemory>,
    to_bucket: bool,
}

#[async_trait]
impl Harness for Moving {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        Ok(Store::new("this process", ()))
    }

    async fn connect(&self, _: &str) -> Result<Arc<dyn Backend>, Error> {
        let bucket = Arc::new(Objects::new(Arc::clone(&self.bucket) as _, "some/prefix")?);
        let (memory, bucket) = (Arc::new(self.memory.clone()), in_this_process(bucket).await?);
        let migration = if self.to_bucket {
            Migration::new(memory, bucket, Phase::Both).await
        } else {
            Migration::new(bucket, memory, Phase::Both).await
        };
        Ok(Arc::new(migration?))
    }

    fn reaches_processes(&self) -> bool {
        false
    }

    fn skips(&self) -> &'static [&'static str] {
        &["fair", "pushes", "shared", "processes", "hands_over"]
    }
}

/// A bucket in a server of S3.
struct OverS3;

#[async_trait]
impl Harness for OverS3 {
    fn name(&self) -> &'static str {
        "object-store/s3"
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let server = S3::start().await?;
        let url = format!("{}&timeout=20s", server.store_url());
        // The server is slow: a long case must not outlast its leases.
        let longest = Init::new().with_longest_lease(Duration::from_secs(120));
        self.connect(&url).await?.init(&longest).await?;
        Ok(Store::new(url, server))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        let variables = S3::CREDENTIALS.map(|(key, value)| (key.to_owned(), value.to_owned()));
        backend_object_store::connect_with(address, variables).await
    }

    fn lease(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// The store has no queue, no push and no shared locks.
    fn skips(&self) -> &'static [&'static str] {
        &["fair", "pushes", "shared", "limited_readers"]
    }
}

fn main() -> ExitCode {
    let moving = |name, to_bucket| -> Arc<dyn Harness> {
        Arc::new(Moving { name, memory: Memory::new(), bucket: Arc::default(), to_bucket })
    };
    conformance_tests::main(vec![
        Arc::new(InABucket(Arc::default())),
        Arc::new(OwnStore(Arc::default())),
        moving("object-store/memory-bucket", true),
        moving("object-store/bucket-memory", false),
        Arc::new(OverS3),
    ])
}
