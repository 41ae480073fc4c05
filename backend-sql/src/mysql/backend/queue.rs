//! The queue of a name: a table of entries.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Error, FencingToken, Grant, Mode, OwnerId, Request, SystemEnv, jittered};
use tokio::time::sleep;

use crate::{
    dialect::Dialect as _,
    error::{column, token_of},
    mysql::{
        removals::remove,
        rows::batch,
        statements::Argument::{Bytes, Number, Text},
        store::Mysql,
    },
    servers::times::span,
    tunables::{
        TRIES,
        mysql::{BELL_LIFE, HEARTBEAT_AGAIN, HEARTBEAT_BATCH},
    },
    waiting::{CheckResult, Known, Listening, Queue, QueueEntries, QueueEntry},
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
        if request.mode == Mode::Exclusive {
            self.holds.bells.hang(request.owner, BELL_LIFE);
        }
        if !entry.begin_heartbeat() {
            return Ok(());
        }
        if is_there == Some(true) {
            return self.heartbeat(request, entry).await;
        }
        let owner = request.owner.to_string();
        let arguments = [
            Bytes(request.name.as_str().as_bytes()),
            Bytes(owner.as_bytes()),
            Bytes(request.label.as_str().as_bytes()),
            Number(request.floor.get().cast_signed()),
            Number((request.mode == Mode::Shared).into()),
        ];
        let entered = self.ready().await?.execute_repeatable(&self.sql.enter, &arguments).await;
        entered.inspect_err(|_| entry.heartbeat_failed()).map(drop)
    }

    /// Sends the heartbeat of an entry, and of all others of this client that are soon due. The
    /// statement skips entries that are locked, also by heartbeats of other clients at the same
    /// moment, so it is repeated if it has found too few.
    async fn heartbeat(&self, request: &Request, entry: &Arc<QueueEntry>) -> Result<(), Error> {
        let mut entries = self.entries.soon_due(HEARTBEAT_BATCH);
        entries.push((request.owner, Arc::clone(entry)));
        // No lease is read.
        let each =
            entries.iter().map(|(owner, entry)| (entry.name(), Some((*owner, Duration::ZERO))));
        let batch = batch(each);
        let server = self.ready().await?;
        for _ in 0..TRIES {
            let sent = server.execute_repeatable(&self.sql.heartbeat, &[Text(&batch)]).await;
            let sent = sent
                .inspect_err(|_| entries.iter().for_each(|(_, entry)| entry.heartbeat_failed()))?;
            if sent.rows_affected() >= entries.len() as u64 {
                break;
            }
            sleep(jittered(&SystemEnv, HEARTBEAT_AGAIN)).await;
        }
        Ok(())
    }

    /// A check of a writer.
    async fn check_place(&self, request: &Request, known: Known) -> Result<CheckResult, Error> {
        if known.rung && !known.is_next {
            let quick = self.check_place_by(request, true).await?;
            if !matches!(quick, CheckResult::Wait(..)) {
                return Ok(quick);
            }
        }
        self.check_place_by(request, known.is_next).await
    }

    async fn check_place_by(&self, request: &Request, is_next: bool) -> Result<CheckResult, Error> {
        let statement = if is_next { &self.sql.read_holder } else { &self.sql.read_place };
        let owner = request.owner.to_string();
        let bells = Number(self.holds.bells.work().into());
        let asked = [Bytes(request.name.as_str().as_bytes()), Bytes(owner.as_bytes()), bells];
        let rows = self.ready().await?.rows(statement, &asked).await?;
        let Some(row) = rows.first() else { return Ok(CheckResult::Free) };
        let is_ours: i64 = column(row, 0)?;
        let (token, kept): (i64, i8) = (column(row, 1)?, column(row, 2)?);
        let (left, before): (i64, i64) = (column(row, 3)?, column(row, 4)?);
        let (left, before) = (span(left), u32::try_from(before).unwrap_or(u32::MAX));
        let bell: Option<Vec<u8>> = column(row, "bell")?;
        let bell = bell.and_then(|bell| String::from_utf8_lossy(&bell).parse().ok());
        let is_seldom = self.entries.of(request.owner).is_some_and(|entry| entry.is_seldom());
        match left {
            Duration::ZERO if before == 0 => Ok(CheckResult::Free),
            Duration::ZERO => Ok(CheckResult::Wait(before, bell)),
            _ if is_ours == 0 => Ok(CheckResult::Wait(before, bell)),
            _ if kept == 0 && !is_seldom => self.claim(request, token_of(token)?, left).await,
            // An attempt renews the lease. So it does where the grant is of an attempt without an
            // answer, whose token nobody has checked.
            _ => Ok(CheckResult::Free),
        }
    }

    /// Makes sure of a grant that a release has made to a waiter, whose check has read it. The
    /// server shows a grant before it has flushed it, and may lose it in a crash. When the removal
    /// of the entry is flushed, so is the grant. Without an entry to remove, an attempt renews the
    /// lock, and is flushed.
    async fn claim(
        &self,
        request: &Request,
        token: FencingToken,
        left: Duration,
    ) -> Result<CheckResult, Error> {
        let flushed = remove(&self.server, &self.sql, request).await?;
        Ok(if flushed { CheckResult::Granted(token, left) } else { CheckResult::Free })
    }
}

#[async_trait]
impl Queue for Mysql {
    fn entries(&self) -> &QueueEntries {
        &self.entries
    }

    fn is_woken(&self) -> bool {
        false
    }

    fn listen(&self, owner: OwnerId) -> Option<Listening> {
        self.holds.bells.listen(owner)
    }

    async fn check(&self, request: &Request, known: Known) -> Result<CheckResult, Error> {
        if request.mode == Mode::Exclusive {
            return self.check_place(request, known).await;
        }
        // A reader that shares the lock asks, too: an attempt renews its own lease.
        let row = self.read_row(&request.name, Some(request.owner)).await?;
        let waits = row.filter(|row| row.owner != Some(request.owner) && row.refuses(request));
        Ok(waits.map_or(CheckResult::Free, |row| CheckResult::Wait(row.before_us, None)))
    }

    async fn leave(&self, request: &Request) -> Result<(), Error> {
        self.ready().await?;
        // The entry goes first: otherwise a release could still give the lock to it.
        let removed = remove(&self.server, &self.sql, request).await;
        let left = match removed {
            Ok(_) => {
                let left = Grant::new(request, FencingToken::ZERO).with_mode(request.mode);
                self.withdraw(&left).await
            }
            Err(error) => Err(error),
        };
        self.holds.end(request.owner);
        left
    }
}
