//! The suite over the reference backend.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use async_trait::async_trait;
use lock_core::{Backend, Env as _, Error, Memory, Mutex, SystemEnv};

use crate::{Harness, SetUpError, Store};

/// The started stores by their addresses. The suite makes the addresses up, since a store in memory
/// has none.
static STORES: LazyLock<Mutex<HashMap<String, Memory>>> = LazyLock::new(Mutex::default);

/// Runs the suite over [`Memory`].
#[derive(Debug)]
pub struct MemoryHarness;

#[async_trait]
impl Harness for MemoryHarness {
    fn name(&self) -> &'static str {
        "memory"
    }

    async fn start(&self) -> Result<Store, SetUpError> {
        let address = SystemEnv.random().to_string();
        let mut stores = STORES.lock();
        stores.insert(address.clone(), Memory::new());
        Ok(Store::new(address, ()))
    }

    async fn connect(&self, address: &str) -> Result<Arc<dyn Backend>, Error> {
        let stores = STORES.lock();
        Ok(Arc::new(stores.get(address).expect("a store that was started").clone()))
    }

    fn reaches_processes(&self) -> bool {
        false
    }

    fn lease(&self) -> std::time::Duration {
        std::time::Duration::from_millis(300)
    }

    fn skips(&self) -> &'static [&'static str] {
        &["processes"]
    }
}
