//! The server of a store: its sessions, and the statements on its tables.

use std::{ops::Deref, sync::Arc, time::Duration};

use sqlx::SqlStr;

use super::{
    arg::Arg::{MaybeText, Span, Text},
    sessions::Sessions,
};
use crate::{
    postgres::statements::{self, STORE, Statements},
    tables::Tables,
};

#[derive(Debug)]
pub(crate) struct Server {
    sessions: Sessions,
    /// The check of the tables, which comes before any other statement.
    pub(crate) exists: SqlStr,
    pub(crate) sql: Statements,
    pub(crate) tables: Tables,
}

impl Server {
    pub(crate) fn new(sessions: Sessions, tables: Tables) -> Self {
        let exists = statements::exists(&tables, &STORE);
        Self { sessions, exists, sql: Statements::new(&tables), tables }
    }

    /// Runs the statements of a handoff for a name that no lock has, in a session that has not run
    /// them yet. To parse and plan a statement takes the server up to ten times as long as to run
    /// it. A client that holds or waits has time for that, and a handoff has not.
    ///
    /// A separate task does this, and no heartbeat waits for it: on a busy server, these statements
    /// take longer than an entry lives without a heartbeat.
    pub(crate) fn prepare_handoff(self: &Arc<Self>) {
        if self.begin_to_prepare_handoff() {
            let server = Arc::clone(self);
            tokio::spawn(async move { server.run_handoff_for_no_lock().await });
        }
    }

    async fn run_handoff_for_no_lock(&self) {
        self.wait_for_idle().await;
        let [none, span] = [Text(""), Span(Duration::ZERO)];
        for (statement, args) in [
            (&self.sql.confirm, &[none, none, span][..]),
            (&self.sql.release, &[none, none]),
            (&self.sql.release_to_waiter, &[none, none, span, MaybeText(None), span]),
        ] {
            if let Err(error) = self.run_once(statement, args).await {
                tracing::trace!(target: "leasehold", %error, "the next handoff will take longer");
                return;
            }
        }
    }
}

impl Deref for Server {
    type Target = Sessions;

    fn deref(&self) -> &Sessions {
        &self.sessions
    }
}
