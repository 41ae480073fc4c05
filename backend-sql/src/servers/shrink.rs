//! Closes the connections that a busy moment has opened, except one.
//!
//! The driver's own time limit for idle connections cannot be as short. It also closes the last connection and opens another
//! one, so a client that does nothing would start a session of the server again and again.

use sqlx::{Database, Pool};
use tokio::{task::AbortHandle, time::sleep};

use crate::tunables::SHRINK;

/// Shrinks a pool again and again until this is dropped.
#[derive(Debug)]
pub(crate) struct Shrinking(AbortHandle);

impl Shrinking {
    pub(crate) fn start<DB: Database>(pool: &Pool<DB>) -> Self {
        let pool = pool.clone();
        let shrink = async move {
            loop {
                sleep(SHRINK).await;
                while pool.size() > 1 && pool.num_idle() == pool.size() as usize {
                    let Some(connection) = pool.try_acquire() else { break };
                    if let Err(error) = connection.close().await {
                        tracing::debug!(%error, "an idle connection was already broken when it was closed");
                    }
                }
            }
        };
        Self(tokio::spawn(shrink).abort_handle())
    }
}

impl Drop for Shrinking {
    fn drop(&mut self) {
        self.0.abort();
    }
}
