//! The conformance suite over the store whose URL is in `LEASEHOLD_SUITE_URL`. The store already
//! runs, perhaps on another machine, and holds no locks.

use std::{process::ExitCode, sync::Arc};

use async_trait::async_trait;
use conformance_tests::{Harness, PAUSES, SetUpError, Store};
use leasehold::backend::{Backend, Error};

/// The URL of the store.
const VARIABLE: &str = "LEASEHOLD_SUITE_URL";

/// A store that already runs: its name, and what does not apply to it.
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
    let (name, own): (_, &[_]) = match url.split(':').next().unwrap_or_default() {
        // Where no process can be paused, there are no named pipes, either.
        "sqlite" => ("sqlite", if PAUSES { &[] } else { &["pushes"] }),
        "redis" => ("redis", &["records"]),
        "postgres" => ("postgres", &[]),
        "mysql" => ("mysql", &[]),
        "etcd" => ("etcd", &["limited_readers"]),
        scheme => {
            eprintln!(
                "{VARIABLE} has the scheme {scheme:?}; it must be sqlite, redis, postgres, mysql or etcd"
            );
            return ExitCode::from(64);
        }
    };
    let mut skips = own.to_vec();
    if !PAUSES {
        skips.push("pauses");
    }
    conformance_tests::main(vec![Arc::new(Running(name, skips.leak()))])
}
