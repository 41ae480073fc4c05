//! The server of a store: its sessions, and the statements on its tables.

use std::ops::Deref;

use sqlx::SqlStr;

use super::{
    sessions::Sessions,
    statements::{self, STORE, Statements},
};
use crate::tables::Tables;

#[derive(Debug)]
pub(super) struct Server {
    sessions: Sessions,
    /// What is asked before any other statement.
    pub(super) exists: SqlStr,
    pub(super) sql: Statements,
    pub(super) tables: Tables,
}

impl Server {
    pub(super) fn new(sessions: Sessions, tables: Tables) -> Self {
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
