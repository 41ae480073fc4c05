//! Waits until replicas have acknowledged what a connection has written.

use std::sync::atomic::{AtomicU64, Ordering};

use lock_core::{Error, ErrorKind};
use redis::{Cmd, Value};

use crate::{
    scripts::reply::{self, not_understood},
    settings::Acknowledgement,
};

/// The writes of a connection, and those that its last WAIT covered. A WAIT delays everything that
/// is sent after it, so only one runs at a time. It serves all writes that were sent before it.
#[derive(Debug, Default)]
pub(super) struct Replicas {
    writes: AtomicU64,
    covered: tokio::sync::Mutex<LastWait>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LastWait {
    writes: u64,
    replicas: u64,
}

impl Replicas {
    /// Waits until enough replicas have what was written on the connection before. `ask` sends a
    /// command on it.
    ///
    /// # Errors
    /// `Unavailable` if too few replicas have it. Other errors if that is unknown.
    pub(super) async fn acknowledge(
        &self,
        wanted: Acknowledgement,
        ask: impl AsyncFnOnce(Cmd) -> Result<Value, Error>,
    ) -> Result<(), Error> {
        let mine = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        let mut covered = self.covered.lock().await;
        if covered.writes < mine {
            let writes = self.writes.load(Ordering::SeqCst);
            let mut wait = redis::cmd("WAIT");
            wait.arg(wanted.replicas).arg(wanted.within.as_millis() as u64);
            let answer = ask(wait).await?;
            let Value::Int(_) = answer else { return Err(not_understood()) };
            *covered = LastWait { writes, replicas: reply::number(&answer)? };
        }
        let replicas = covered.replicas;
        if replicas >= u64::from(wanted.replicas) {
            return Ok(());
        }
        let message = format!(
            "{replicas} replicas acknowledged within {}; wanted are {}",
            humantime::format_duration(wanted.within),
            wanted.replicas
        );
        Err(Error::new(ErrorKind::Unavailable, message))
    }
}
