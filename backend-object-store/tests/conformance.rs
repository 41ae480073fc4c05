//! The conformance suite over a bucket in memory, and over S3 by the URL that users have.

use std::{process::ExitCode, sync::Arc, time::Duration};

use backend_object_store::{
    Objects,
    cas::{CasBackend, CasOptions},
};
use conformance_tests::{Harness, SetUpError, Store};
use lock_core::{Backend, Error, Init, async_trait};
use object_store::memory::InMemory;
use servers::S3;

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
    conformance_tests::main(vec![Arc::new(InABucket(Arc::default())), Arc::new(OverS3)])
}
