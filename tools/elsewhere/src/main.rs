//! The conformance suite over the store whose URL is in `LEASEHOLD_SUITE_URL`. The store already
//! runs, perhaps on another machine, and holds no locks.

use std::{process::ExitCode, sync::Arc};

use async_trait::async_trait;
use conformance_tests::{Harness, PAUSES, SetUpError, Store};
use leasehold::backend::{Backend, Error};

/// The URL of the store.
const VARIABLE: &str = "LEASEHOLD_SUITE_URL";

/// A store that already runs. Its name, and what does not apply to it besides where no process can
/// be paused.
struct Running(&'static str, &'static [&'static str]);

#[async_trait]
impl Harness for Running {
    fn name(&self) -> &'static str {
        self.0
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        Ok(Store::new(std::env::var(VARIABLE)?, ()))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        leasehold::open(address).await
    }

    fn skips(&self) -> &'static [&'static str] {
        self.1
    }
}

fn main() -> ExitCode {
    let url = std::env::var(VARIABLE).unwrap_or_default();
    let store = match (url.split(':').next().unwrap_or_default(), PAUSES) {
        ("sqlite", true) => Running("sqlite", &[]),
        ("sqlite", false) => Running("sqlite", &["pauses", "pushes"]),
        ("redis", true) => Running("redis", &["records"]),
        ("redis", false) => Running("redis", &["pauses", "records"]),
        ("postgres", true) => Running("postgres", &[]),
        ("postgres", false) => Running("postgres", &["pauses"]),
        ("mysql", true) => Running("mysql", &["pushes"]),
        ("mysql", false) => Running("mysql", &["pauses", "pushes"]),
        ("etcd", true) => Running("etcd", &["limited_readers"]),
        ("etcd", false) => Running("etcd", &["limited_readers", "pauses"]),
        (scheme, _) => {
            eprintln!(
                "{VARIABLE} has the scheme {scheme:?}; it must be sqlite, redis, postgres, mysql or etcd"
            );
            return ExitCode::from(64);
        }
    };
    conformance_tests::main(vec![Arc::new(store)])
}
