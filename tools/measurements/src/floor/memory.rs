//! The floor of the store in memory: a map behind a mutex.

use std::{collections::HashMap, sync::MutexGuard};

use lock_core::Mutex;

use async_trait::async_trait;

use super::{Floor, Setting, Trouble};

#[derive(Default)]
pub(super) struct Map(Mutex<HashMap<usize, u64>>);

impl Map {
    fn entries(&self) -> MutexGuard<'_, HashMap<usize, u64>> {
        self.0.lock()
    }
}

#[async_trait]
impl Floor for Map {
    async fn ping(&self) -> Result<(), Trouble> {
        std::hint::black_box(self.entries().get(&0));
        Ok(())
    }

    async fn write(&self) -> Result<(), Trouble> {
        *self.entries().entry(0).or_default() += 1;
        Ok(())
    }

    async fn pair(&self, task: usize) -> Result<(), Trouble> {
        self.entries().insert(task, 1);
        self.entries().remove(&task);
        Ok(())
    }

    fn pair_is(&self) -> &'static str {
        "an entry of a map put in and taken out, behind a mutex"
    }

    async fn about(&self) -> Vec<Setting> {
        vec![Setting::new("version", env!("CARGO_PKG_VERSION"))]
    }

    async fn close(&self) {}
}
