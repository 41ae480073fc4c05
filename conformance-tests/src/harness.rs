//! What a test implements, so that the suite can try its store.

use std::{any::Any, error::Error as StdError, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Backend, Error, Guarantees};

/// A failure to set a store up, in words.
pub type SetUpError = Box<dyn StdError + Send + Sync>;

/// A kind of store, and how to start one.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// The name of the store in the table, such as `redis/tls`.
    fn name(&self) -> &'static str;

    /// Starts whatever the store needs.
    ///
    /// # Errors
    /// In words; the whole run of this harness then fails.
    async fn start(&self) -> Result<Store, SetUpError>;

    /// Makes a new connection to the store at `address`, as another process would. Child processes
    /// call this, too, without [`start`](Harness::start).
    ///
    /// # Errors
    /// As the backend's.
    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error>;

    /// Whether other processes can reach the store (default: they can).
    fn reaches_processes(&self) -> bool {
        true
    }

    /// The shortest lease that the cases use (default: 600 ms). A store with coarse leases returns
    /// more.
    fn lease(&self) -> Duration {
        Duration::from_millis(600)
    }

    /// Whether the backend refuses this name, although the contract allows it (default: it does
    /// not). It must refuse with `InvalidInput`, before it sends anything to the store.
    fn refuses(&self, _name: &str) -> bool {
        false
    }

    /// The cases that do not apply to this store (default: none), by their names or by what they
    /// need. The run fails if a case that does not apply is not listed, and if a listed case
    /// applies. The words are those of [`Guarantees`]: `fair` lists all cases that need a fair
    /// queue, `pushes` those that need pushes, `raises` those that raise a token, `shared` those of
    /// readers and writers, `records` those of records, `hands_over` those that hand a lock over,
    /// `limited_readers` those that need a limit for the number of readers.
    /// `processes` lists those that need [`reaches_processes`](Harness::reaches_processes),
    /// `pauses` those that pause a process, which not every system can.
    fn skips(&self) -> &'static [&'static str] {
        &[]
    }
}

/// A store that runs.
pub struct Store {
    /// The argument of [`Harness::connect`].
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

/// What a case needs of a store or a harness.
#[derive(Clone, Copy)]
pub struct Need {
    /// A word, such as `fair`. [`Harness::skips`] may list it.
    pub name: &'static str,
    /// Whether it is there. `Err` says why not.
    pub check: fn(&Guarantees, &dyn Harness) -> Result<(), &'static str>,
}
