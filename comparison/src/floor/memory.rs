//! A map behind a mutex.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;

use super::{Floor, Trouble};

#[derive(Default)]
pub(super) struct Map(Mutex<HashMap<&'static str, u64>>);

#[async_trait]
impl Floor for Map {
    async fn ping(&self) -> Result<(), Trouble> {
        std::hint::black_box(self.0.lock().unwrap_or_else(PoisonError::into_inner).get("floor"));
        Ok(())
    }

    async fn write(&self) -> Result<(), Trouble> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry("floor").or_default() += 1;
        Ok(())
    }

    async fn close(&self) {}
}
