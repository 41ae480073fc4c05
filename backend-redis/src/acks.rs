//! Waiting until replicas have acknowledged what this connection has written.

use std::sync::atomic::{AtomicU64, Ordering};

use lock_core::{Error, ErrorKind};
use redis::Value;

use crate::{
    error,
    link::Link,
    reply::{self, not_understood},
    settings::Acknowledgement,
};

/// Writes of a connection, and those that its last WAIT covered. WAIT holds up all that is sent behind it,
/// so that one is under way at a time, and serves all who had written before it was sent.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    writes: AtomicU64,
    covered: tokio::sync::Mutex<Covered>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Covered {
    writes: u64,
    replicas: u64,
}

impl Link {
    /// Waits until enough replicas have what was written on this connection before.
    ///
    /// # Errors
    /// `Unavailable` if they are too few; other errors if that is not known.
    pub(crate) async fn acknowledged(&self, wanted: Acknowledgement) -> Result<(), Error> {
        let mine = self.acks.writes.fetch_add(1, Ordering::SeqCst) + 1;
        let mut covered = self.acks.covered.lock().await;
        if covered.writes < mine {
            let writes = self.acks.writes.load(Ordering::SeqCst);
            let mut wait = redis::cmd("WAIT");
            wait.arg(wanted.replicas).arg(wanted.within.as_millis() as u64);
            let answer = self.send(&wait).await?.map_err(|error| error::of_command(&error))?;
            let Value::Int(_) = answer else { return Err(not_understood()) };
            *covered = Covered { writes, replicas: reply::number(&answer)? };
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
