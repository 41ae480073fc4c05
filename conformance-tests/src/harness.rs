//! What a test gives the suite, so that it can try a store.

use std::{any::Any, error::Error as StdError, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Backend, Error, Guarantees};

/// A failure to set a store up, in words.
pub type SetUpError = Box<dyn StdError + Send + Sync>;

/// A kind of store, and how to start one.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// What the table calls it, such as `redis/tls`.
    fn name(&self) -> &'static str;

    /// Starts whatever the store needs.
    ///
    /// # Errors
    /// In words; the whole run of this harness then fails.
    async fn start(&self) -> Result<Store, SetUpError>;

    /// A connection of its own to the store at `address`, as another process would have. Child
    /// processes call this too, without [`start`](Harness::start).
    ///
    /// # Errors
    /// As the backend's.
    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error>;

    /// Whether other processes can reach the store.
    fn reaches_processes(&self) -> bool {
        true
    }

    /// The shortest lease that the cases are to use; stores with coarse leases say more.
    fn lease(&self) -> Duration {
        Duration::from_millis(600)
    }

    /// Whether the store refuses this name, which is allowed in general, with `InvalidInput` before it is touched.
    fn refuses(&self, _name: &str) -> bool {
        false
    }

    /// Names of the cases that may be skipped here. A skip that is not listed is an error, and so is
    /// a listed one that was not skipped. `shared` stands for all cases of readers and writers, which a store without
    /// [`Guarantees::shared`](lock_core::Guarantees) skips.
    fn skips(&self) -> &'static [&'static str] {
        &[]
    }
}

/// A store that runs.
pub struct Store {
    /// What [`Harness::connect`] is to be given.
    pub address: String,
    /// Servers and folders, kept until the run is over.
    pub kept: Box<dyn Any + Send + Sync>,
}

impl Store {
    /// A store at `address` that lives as long as `kept`.
    pub fn new(address: impl Into<String>, kept: impl Any + Send + Sync) -> Self {
        Self { address: address.into(), kept: Box::new(kept) }
    }
}

/// What a case asks of a store: `Err` tells why it does not apply.
pub type Needs = fn(&Guarantees, &dyn Harness) -> Result<(), &'static str>;
