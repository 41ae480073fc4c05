//! Removes the queue entries of new holders while these begin to use the lock: so a handoff waits
//! for one commit less.

use std::{collections::HashMap, sync::Arc};

use lock_core::{Error, Mutex, OwnerId, Request};
use tokio::task::JoinHandle;

use super::{
    connection::server::Server,
    statements::{Argument::Bytes, Statements},
};

/// Removes the entry of a request. Returns whether it was there. Then the removal is flushed, and
/// with it all that was committed before.
pub(super) async fn remove(
    server: &Server,
    sql: &Statements,
    request: &Request,
) -> Result<bool, Error> {
    let owner = request.owner.to_string();
    let whose = [Bytes(request.name.as_str().as_bytes()), Bytes(owner.as_bytes())];
    let removed = server.execute_repeatable(&sql.leave, &whose).await?;
    Ok(removed.rows_affected() > 0)
}

/// The removals that run.
#[derive(Debug, Default)]
pub(crate) struct Removals(Mutex<HashMap<OwnerId, JoinHandle<()>>>);

impl Removals {
    /// Begins to remove the entry of a request that was granted the lock.
    pub(super) fn begin(&self, server: &Arc<Server>, sql: &Arc<Statements>, request: &Request) {
        let (server, sql) = (Arc::clone(server), Arc::clone(sql));
        let (owner, request) = (request.owner, request.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = remove(&server, &sql, &request).await {
                // Without heartbeats it counts as dead soon.
                tracing::trace!(target: "leasehold", name = %request.name, %error, "a queue entry is left behind");
            }
        });
        let mut tasks = self.0.lock();
        tasks.retain(|_, task| !task.is_finished());
        tasks.insert(owner, task);
    }

    /// Waits until the entry of this owner is removed. Until then it keeps all others from the
    /// lock. Returns whether it was still there.
    pub(super) async fn done(&self, owner: OwnerId) -> bool {
        let task = self.0.lock().remove(&owner);
        match task {
            Some(task) if !task.is_finished() => {
                let _ = task.await;
                true
            }
            _ => false,
        }
    }
}
