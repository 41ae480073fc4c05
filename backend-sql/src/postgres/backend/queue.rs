//! The statements on the queue in a lock's row.

use std::{sync::atomic::Ordering, time::Duration};

use lock_core::{Error, FencingToken, Grant, LockName, Mode, Request};
use sqlx::{Column as _, Row as _, postgres::PgRow};

use crate::{
    backend::poll_behind,
    dialect::{Dialect as _, Row, token_of},
    error::general,
    postgres::{
        connection::{
            arg::Arg::{self, MaybeText, Number, Span, Text},
            sessions::first,
        },
        store::Postgres,
        waiting::entries::{QueueEntry, Told},
    },
    servers::connection::span,
    tunables::postgres::{ENTRY_LIFE, TURN},
};

/// The first arguments of every statement that grants.
pub(super) fn wanted<'a>(request: &'a Request, owner: &'a str) -> [Arg<'a>; 5] {
    [
        Text(request.name.as_str()),
        Text(owner),
        Text(request.label.as_str()),
        Span(request.lease),
        Number(request.floor.get().cast_signed() + 1),
    ]
}

/// For how long an entry counts as alive with so many others before it: it may miss one of its heartbeats.
fn life(others: u32) -> Duration {
    ENTRY_LIFE + poll_behind::<Postgres>(others) * 2
}

impl Postgres {
    /// Releases a grant. The first waiter gets the lock, if its entry allows that. `entry` goes to the end of the queue, if
    /// that is near the head. Returns the new token, and whether the entry is in the queue, or `None` if nothing was done.
    pub(super) async fn pass(
        &self,
        grant: &Grant,
        entry: Option<&QueueEntry>,
    ) -> Result<Option<(FencingToken, bool)>, Error> {
        let owner = grant.owner.to_string();
        let args = [
            Text(grant.name.as_str()),
            Text(&owner),
            Span(TURN),
            MaybeText(entry.map(|entry| entry.id.as_str())),
            Span(life(0)),
        ];
        let rows = self.once(&self.server.sql.pass, &args).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (token, queued) = (row.try_get(0).map_err(general)?, row.try_get(1).map_err(general)?);
        self.crowded.insert(&grant.name);
        self.refill_if(&grant.name, &rows, 2).await;
        Ok(Some((token_of(token)?, queued)))
    }

    /// Brings entries that are behind near the head, if the answer to a statement says in this column that it is time. The
    /// statement was carried out: where this fails the next one does it.
    pub(super) async fn refill_if(&self, name: &LockName, rows: &[PgRow], column: usize) {
        if rows.first().is_some_and(|row| row.try_get(column).unwrap_or(false))
            && let Err(error) = self.refill(name).await
        {
            tracing::debug!(%name, %error, "the queue was not moved on; the next heartbeat will do");
        }
    }

    async fn refill(&self, name: &LockName) -> Result<(), Error> {
        self.again(&self.server.sql.refill, &[Text(name.as_str())]).await.map(drop)
    }

    /// One step of a request: it is granted what is free for it, or its entry, if it has one, is in the queue then. `None`
    /// if the name has no row, or the owner was abandoned.
    pub(super) async fn ask(
        &self,
        request: &Request,
        entry: Option<&QueueEntry>,
    ) -> Result<Option<Row>, Error> {
        let (owner, id) = (request.owner.to_string(), entry.map(|entry| entry.id.as_str()));
        let [name, owner, label, lease, floor] = wanted(request, &owner);
        let [waits, turn, near, far] =
            [MaybeText(id), Span(TURN), Span(life(0)), Span(life(u32::MAX))];
        let args = [name, owner, label, lease, floor, waits, turn, near, far];
        let ask = &self.server.sql.asks[usize::from(request.mode == Mode::Shared)];
        for again in [true, false] {
            let rows = self.again(ask, &args).await?;
            let Some(row) = rows.first() else {
                entry.inspect(|entry| entry.queued.store(false, Ordering::Relaxed));
                return Ok(None);
            };
            let asked = self.entered(row, request, entry)?;
            let short = row.try_get("short").map_err(general)?;
            if short {
                self.refill(&request.name).await?;
            }
            // Otherwise all near the head were dead, and others came there.
            if !again || !short || asked.granted || asked.is_held() {
                return Ok(Some(asked));
            }
        }
        Ok(None)
    }

    /// Where an entry stands by the row that a statement of its has read.
    fn entered(
        &self,
        row: &PgRow,
        request: &Request,
        entry: Option<&QueueEntry>,
    ) -> Result<Row, Error> {
        let at: Option<i32> = row.try_get("place").map_err(general)?;
        let behind: bool = row.try_get("behind").map_err(general)?;
        let granted = row.try_get("granted").map_err(general)?;
        if granted {
            token_of(row.try_get("token").map_err(general)?)?;
        }
        let mut read = Self::row(row, entry.map(|entry| entry.id.as_str()))?;
        read.granted = granted;
        // Those behind that are before it. An attempt does not count them.
        let before: Option<i64> = row.try_get("before").ok();
        read.before_us = match at {
            Some(at) => at.unsigned_abs().saturating_sub(1),
            None if behind => {
                let near = read.waiting.map_or(0, |near| near.saturating_sub(1));
                let before = before.unwrap_or(0).unsigned_abs();
                u32::try_from(near + before).unwrap_or(u32::MAX)
            }
            None => 0,
        };
        if let Some(entry) = entry {
            entry.queued.store(at.is_some() || behind, Ordering::Relaxed);
            let most = if behind && before.is_none() { u32::MAX } else { read.before_us };
            entry.others.store(most, Ordering::Relaxed);
        }
        if granted && read.waiting > Some(0) {
            self.waited.insert(&request.owner);
        }
        Ok(read)
    }

    /// Says of an entry in the queue that it is alive, if that is all that is to be done for it. `None`: it is to ask.
    pub(super) async fn heartbeat(
        &self,
        request: &Request,
        entry: &QueueEntry,
    ) -> Result<Option<Row>, Error> {
        let (owner, name) = (request.owner.to_string(), Text(request.name.as_str()));
        let told = match entry.take_told() {
            None if entry.queued.load(Ordering::Relaxed) => {
                // A message that comes meanwhile is acted on first.
                tokio::select! {
                    () = self.server.idle() => {}
                    () = entry.wake.notified() => {}
                }
                entry.take_told()
            }
            told => told,
        };
        match told {
            Some(Told::Given) => {
                let args = [name, Text(&owner), Span(request.lease)];
                let rows = self.again(&self.server.sql.confirm, &args).await?;
                let Some(row) = rows.first() else { return Ok(None) };
                token_of(row.try_get("token").map_err(general)?)?;
                let confirmed = Row { granted: true, ..Self::row(row, Some(&entry.id))? };
                if confirmed.waiting > Some(0) {
                    self.waited.insert(&request.owner);
                }
                Ok(Some(confirmed))
            }
            Some(Told::Ask) => Ok(None),
            None if !entry.queued.load(Ordering::Relaxed) => Ok(None),
            None => {
                let alive = Span(life(entry.others.load(Ordering::Relaxed)));
                let args = [name, Text(&owner), Text(&entry.id), alive];
                let rows = self.again(&self.server.sql.heartbeat, &args).await?;
                let Some(row) = rows.first() else { return Ok(None) };
                let read = self.entered(row, request, Some(entry))?;
                self.refill_if(&request.name, &rows, row.column("short").ordinal()).await;
                let ours = read.owner == Some(request.owner);
                let waits = read.is_held() && read.refuses(request) && !ours;
                Ok((waits && entry.queued.load(Ordering::Relaxed)).then_some(read))
            }
        }
    }

    /// Whether it is the turn of the entry with this id.
    pub(super) async fn is_turn(&self, name: &LockName, id: &str) -> Result<bool, Error> {
        let args = [Text(name.as_str()), Text(id)];
        Ok(first(&self.again(&self.server.sql.free, &args).await?)? == Some(true))
    }

    /// Gives up the entry with this id, and what it was granted.
    pub(super) async fn leave(&self, request: &Request, id: &str) -> Result<(), Error> {
        let owner = request.owner.to_string();
        let args = [Text(request.name.as_str()), Text(&owner), Text(id)];
        let left = self.again(&self.server.sql.leave, &args).await;
        let rows = left.map_err(|error| error.at(Self::KIND, "leave"))?;
        self.refill_if(&request.name, &rows, 0).await;
        self.leave_readers(request).await
    }

    /// Takes a reader that gives up away from those who share a lock.
    pub(super) async fn leave_readers(&self, request: &Request) -> Result<(), Error> {
        let left = Grant::new(request, FencingToken::ZERO);
        if request.mode == Mode::Shared && !self.part(&left).await? {
            self.release(&left, None).await?;
        }
        Ok(())
    }

    /// Reads a row for people, with all who wait.
    pub(super) fn shown(row: &PgRow) -> Result<Row, Error> {
        let waiting: Option<i64> = row.try_get("waiting_all").map_err(general)?;
        let waiting = Some(waiting.unwrap_or(0).unsigned_abs());
        Ok(Row { waiting, ..Self::row(row, None)? })
    }

    /// Reads a row for a client, which may have this entry in the queue.
    pub(super) fn row(row: &PgRow, entry: Option<&str>) -> Result<Row, Error> {
        Self::read(row, entry).map_err(general)?
    }

    fn read(row: &PgRow, entry: Option<&str>) -> Result<Result<Row, Error>, sqlx::Error> {
        let read = Row::read(
            row.try_get("name")?,
            row.try_get("owner")?,
            row.try_get("label")?,
            row.try_get("token")?,
            row.try_get("version")?,
            span(row.try_get("remaining")?),
        );
        let readers: Option<i64> = row.try_get("readers")?;
        let waiting: Option<i64> = row.try_get("waiting")?;
        let first: Option<&str> = row.try_get("first")?;
        let (turn, kept) = (span(row.try_get("turn")?), row.try_get("kept")?);
        Ok(read.map(|mut read| {
            read.kept = kept;
            read.set_readers(readers);
            read.waiting = Some(waiting.unwrap_or(0).unsigned_abs());
            if first.is_some() && first != entry {
                read.others_first = turn.max(Duration::from_millis(1));
            }
            read
        }))
    }
}
