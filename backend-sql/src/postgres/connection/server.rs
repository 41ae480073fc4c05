//! The server of a store: its sessions, and the statements on its tables.

use std::{ops::Deref, time::Duration};

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
    pub(crate) async fn prepare_handoff(&self) {
        if !self.begin_to_prepare_handoff() {
            return;
        }
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
