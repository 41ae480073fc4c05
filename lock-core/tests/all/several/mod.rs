//! Several locks in one: each primitive by itself.

mod all;
mod election;
mod semaphore;

use std::time::Duration;

use lock_core::{Backend as _, LockName};

use crate::support::Stub;

const SECOND: Duration = Duration::from_secs(1);

/// Whether the name is neither held nor waited for, at once or after a few turns of other tasks.
async fn is_untouched(stub: &Stub, name: &str) -> bool {
    let name = LockName::new(name).unwrap();
    for _ in 0..10_000 {
        let state = stub.memory.inspect(&name).await.unwrap();
        if state.is_none_or(|state| state.holder.is_none() && state.waiting.unwrap_or(0) == 0) {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}
