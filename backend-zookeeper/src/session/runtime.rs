//! The runtime of all connections.

use std::{future::pending, sync::OnceLock, thread};

use lock_core::{Error, ErrorKind};
use tokio::runtime::{Builder, Handle};

/// A session must outlive the runtime that happened to open it: an application may have one runtime
/// per test. So the connections of this process have a thread of their own.
pub(super) fn runtime() -> Result<&'static Handle, Error> {
    static RUNTIME: OnceLock<Result<Handle, String>> = OnceLock::new();
    RUNTIME.get_or_init(|| start().map_err(|error| error.to_string())).as_ref().map_err(|why| {
        let message = format!("the thread for ZooKeeper's connections cannot be started: {why}");
        Error::new(ErrorKind::Unavailable, message)
    })
}

/// Runs a task on it.
pub(crate) fn in_background(task: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = runtime() {
        runtime.spawn(task);
    }
}

/// Carries a task out on it, also if nobody polls the caller any more.
pub(super) async fn on_runtime<T: Send + 'static, E: From<Error> + Send + 'static>(
    task: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E> {
    runtime()?.spawn(task).await.unwrap_or_else(|error| {
        let error = Error::new(ErrorKind::OutcomeUnknown, "a task has panicked").with_source(error);
        Err(error.into())
    })
}

fn start() -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(pending::<()>());
    thread::Builder::new().name("leasehold-zookeeper".to_owned()).spawn(run)?;
    Ok(handle)
}
