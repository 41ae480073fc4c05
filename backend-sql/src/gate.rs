//! Limits how many connections of a pool each kind of call may take.

use std::time::Duration;

use lock_core::{Error, ErrorKind};
use tokio::{
    sync::{AcquireError, Semaphore, SemaphorePermit},
    time::timeout,
};

/// Keeps connections of a pool for renewals and for releases. Attempts may wait long for rows that
/// another transaction has locked. If they took all connections, every lock that this client holds
/// would be lost meanwhile.
#[derive(Debug)]
pub struct Gate {
    /// For all calls but renewals: one connection less than the pool has.
    calls: Semaphore,
    /// For attempts and clean-ups, which belong to no held lock: one connection less again.
    attempts: Semaphore,
    timeout: Duration,
}

/// Lets an attempt, or its clean-up, pass.
pub(crate) async fn attempt(gate: Option<&Gate>) -> Result<Option<Pass<'_>>, Error> {
    let Some(gate) = gate else { return Ok(None) };
    gate.pass(Some(&gate.attempts)).await.map(Some)
}

/// Lets another call pass that may wait for a row.
pub(crate) async fn call(gate: Option<&Gate>) -> Result<Option<Pass<'_>>, Error> {
    let Some(gate) = gate else { return Ok(None) };
    gate.pass(None).await.map(Some)
}

/// Permission for one call, which uses one connection at a time.
pub(crate) struct Pass<'a> {
    _attempt: Option<SemaphorePermit<'a>>,
    _call: SemaphorePermit<'a>,
}

impl Gate {
    /// For a pool with this many connections. A pool of two keeps no connection for releases, and a
    /// pool of one keeps none at all.
    #[cfg_attr(
        not(any(feature = "mysql", feature = "postgres")),
        expect(dead_code, reason = "a file has one connection")
    )]
    pub(crate) fn new(connections: u32, timeout: Duration) -> Self {
        let but = |kept| Semaphore::new(connections.saturating_sub(kept).max(1) as usize);
        Self { calls: but(1), attempts: but(2), timeout }
    }

    async fn pass<'a>(&'a self, attempts: Option<&'a Semaphore>) -> Result<Pass<'a>, Error> {
        let pass = async {
            let attempt = match attempts {
                Some(attempts) => Some(attempts.acquire().await?),
                None => None,
            };
            Ok::<_, AcquireError>(Pass { _attempt: attempt, _call: self.calls.acquire().await? })
        };
        // Neither semaphore is ever closed, so the only failure is the timeout.
        match timeout(self.timeout, pass).await {
            Ok(Ok(pass)) => Ok(pass),
            _ => {
                let message = "no connection in time: other calls of this client use all connections that are not \
                               kept for renewals and releases";
                Err(Error::new(ErrorKind::Unavailable, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many attempts, and how many calls besides, may run with this many connections.
    async fn room(connections: u32) -> (usize, usize) {
        let gate = Gate::new(connections, Duration::from_millis(1));
        let (mut attempts, mut calls) = (Vec::new(), Vec::new());
        while let Ok(pass) = attempt(Some(&gate)).await {
            attempts.push(pass);
        }
        while let Ok(pass) = call(Some(&gate)).await {
            calls.push(pass);
        }
        (attempts.len(), calls.len())
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_leave_a_connection_for_releases_and_both_one_for_renewals() {
        let mut rooms = Vec::new();
        for connections in 1..=5 {
            rooms.push(room(connections).await);
        }
        assert_eq!(rooms, [(1, 0), (1, 0), (1, 1), (2, 1), (3, 1)]);
    }
}
