//! What the tests share.

mod envs;
mod stub;

use std::time::Duration;

use lock_core::{Backend as _, Guard, LockName, Memory};

pub(crate) use self::{
    envs::SuspendableEnv,
    stub::{Fault, Stub},
};

const LONG: Duration = Duration::from_secs(3_600);

/// Waits for at most an hour, so that a test fails and does not hang.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LONG, future).await {
        Ok(answer) => answer,
        Err(_) => panic!("{what}: not within {LONG:?}"),
    }
}

/// Acquires a lock by another client of the store.
pub(crate) async fn held(stub: &Stub, name: &str) -> Guard {
    stub.other().lock(name).acquire().await.unwrap()
}

pub(crate) async fn one_entry_waits(memory: &Memory) {
    let name = LockName::new("job").unwrap();
    let taken = async {
        while memory.inspect(&name).await.unwrap().and_then(|state| state.waiting) != Some(1) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), taken).await.expect("nobody has a queue entry");
}
