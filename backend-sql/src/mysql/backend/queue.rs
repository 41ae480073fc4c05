//! The queue of a name: a table of entries.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Error, FencingToken, Grant, Mode, Request};

use super::steps::UNCHECKED;
use crate::{
    dialect::Dialect as _,
    mysql::{
        removals::remove,
        rows::batch,
        statements::Argument::{Bytes, Text},
        store::Mysql,
    },
    tunables::{CLAIM_WINDOW, mysql::HEARTBEAT_BATCH},
    waiting::{CheckResult, Queue, QueueEntries, QueueEntry},
};

impl Mysql {
    /// Adds the entry of a request to the queue, or sends its heartbeat if one is due. `is_there`:
    /// whether the queue has the entry already, if that is known.
    pub(super) async fn enter(
        &self,
        request: &Request,
        entry: &Arc<QueueEntry>,
        is_there: Option<bool>,
    ) -> Result<(), Error> {
        if is_there == Some(false) {
            // It is new, or was swept away while this process stood still.
            entry.heartbeat_failed();
        }
        if !entry.begin_heartbeat() {
            return Ok(());
        }
        if is_there == Some(true) {
            return self.heartbeat(request, entry).await;
        }
        let owner = request.owner.to_string();
        let whose = [Bytes(request.name.as_str().as_bytes()), Bytes(owner.as_bytes())];
        let entered = self.ready().await?.execute_repeatable(&self.sql.enter, &whose).await;
        entered.inspect_err(|_| entry.heartbeat_failed()).map(drop)
    }

    /// Sends the heartbeat of an entry, and of all others of this client that are soon due.
    async fn heartbeat(&self, request: &Request, entry: &Arc<QueueEntry>) -> Result<(), Error> {
        let mut entries = self.entries.soon_due(HEARTBEAT_BATCH);
        entries.push((request.owner, Arc::clone(entry)));
        // No lease is read.
        let each =
            entries.iter().map(|(owner, entry)| (entry.name(), Some((*owner, Duration::ZERO))));
        let sent = self
            .ready()
            .await?
            .execute_repeatable(&self.sql.heartbeat, &[Text(&batch(each))])
            .await;
        sent.inspect_err(|_| entries.iter().for_each(|(_, entry)| entry.heartbeat_failed()))
            .map(drop)
    }
}

#[async_trait]
impl Queue for Mysql {
    const CLAIM_WINDOW: Duration = CLAIM_WINDOW;

    fn entries(&self) -> &QueueEntries {
        &self.entries
    }

    fn is_woken(&self) -> bool {
        false
    }

    async fn check(&self, request: &Request) -> Result<CheckResult, Error> {
        let row = self.read_row(&request.name, Some(request.owner)).await?;
        // Nobody gives it the lock: it has to ask.
        let waits = row.filter(|row| row.refuses(request));
        Ok(waits.map_or(CheckResult::Free, |row| CheckResult::Wait(row.before_us)))
    }

    async fn leave(&self, request: &Request) -> Result<(), Error> {
        self.ready().await?;
        remove(&self.server, &self.sql, request).await?;
        let left = Grant::new(request, FencingToken::ZERO);
        if request.mode == Mode::Shared && self.part(&left).await? {
            return Ok(());
        }
        self.change(&self.sql.release, &left, Some(UNCHECKED)).await.map(drop)
    }
}
