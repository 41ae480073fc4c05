//! The suite over the reference backend.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use async_trait::async_trait;
use lock_core::{Backend, Env as _, Error, Memory, Mutex, SystemEnv};

use crate::{Harness, SetUpError, Store};

/// The started stores by their addresses. The suite makes the addresses up, since a store in memory has none.
static STORES: LazyLock<Mutex<HashMap<String, Memory>>> = LazyLock::new(Mutex::default);

/// Runs the suite over [`Memory`].
#[derive(Debug)]
pub struct MemoryHarness;

impl MemoryHarness {
    /// The cases that need a store that other processes can reach.
    pub const NEED_PROCESSES: [&str; 13] = [
        "a_killed_holders_lock_is_free_within_its_lease",
        "a_paused_holder_learns_of_its_loss_and_is_fenced",
        "processes_count_without_losing_an_update",
        "processes_share_the_permits_of_a_semaphore",
        "a_killed_holders_permit_is_free_within_its_lease",
        "a_client_killed_at_the_door_keeps_nobody_from_a_free_slot",
        "all_locks_of_a_killed_holder_are_free_within_their_lease",
        "a_paused_holder_of_a_permit_learns_of_its_loss",
        "a_paused_holder_of_all_learns_of_its_loss",
        "an_election_outlives_its_leaders",
        "no_process_reads_while_another_writes",
        "a_killed_readers_lock_is_free_for_writers_within_its_lease",
        "a_paused_reader_learns_of_its_loss",
    ];
}

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
        &Self::NEED_PROCESSES
    }
}
