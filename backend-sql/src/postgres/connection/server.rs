//! The server of a store: its sessions, and the statements on its tables.

use std::ops::Deref;

use sqlx::SqlStr;

use super::sessions::Sessions;
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
}

impl Deref for Server {
    type Target = Sessions;

    fn deref(&self) -> &Sessions {
        &self.sessions
    }
}
