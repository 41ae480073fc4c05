//! The sweep: deletes rows that are needed no more, in the background, so that no call waits for it.

use std::{sync::Arc, time::Duration};

use lock_core::{Error, Mutex};
use tokio::{task::JoinHandle, time::timeout};

use super::connection::{arg::Arg::Number, server::Server, sessions::first};
use crate::{
    gate,
    tunables::postgres::{SWEEPS, SWEPT},
};

/// The sweep of a client, of which one runs at a time.
#[derive(Debug, Default)]
pub(super) struct Sweeping(Mutex<Option<JoinHandle<()>>>);

impl Sweeping {
    /// Starts a sweep, unless one is still running.
    pub(super) fn begin(&self, server: &Arc<Server>) {
        let mut running = self.0.lock();
        if running.as_ref().is_some_and(|sweep| !sweep.is_finished()) {
            return;
        }
        let server = Arc::clone(server);
        *running = Some(tokio::spawn(async move {
            if let Err(error) = sweep(&server).await {
                tracing::debug!(%error, "sweep failed; a later one will do its work");
            }
        }));
    }

    /// Waits for the sweep that is running. A process that releases one lock and ends may have begun one.
    pub(super) async fn end(&self, limit: Duration) {
        let running = self.0.lock().take();
        if let Some(sweep) = running {
            let abort = sweep.abort_handle();
            if timeout(limit, sweep).await.is_err() {
                abort.abort();
            }
        }
    }
}

/// In this order, so that rows are deleted by the watermark before this raise.
async fn sweep(server: &Server) -> Result<(), Error> {
    let sql = &server.sql;
    let _pass = gate::attempt(Some(&server.gate)).await?;
    for _ in 0..SWEEPS {
        let swept: Option<i64> = first(&server.run_once(&sql.sweep, &[Number(SWEPT)]).await?)?;
        if swept < Some(SWEPT) {
            break;
        }
    }
    server.run_once(&sql.sweep_watermark, &[]).await?;
    server.run_once(&sql.sweep_entries, &[Number(SWEPT)]).await.map(drop)
}
