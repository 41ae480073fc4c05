//! The statements on the queue of a lock.

use std::{sync::atomic::Ordering, time::Duration};

use lock_core::{Error, FencingToken, Grant, LockName, Mode, Request};
use sqlx::{Column as _, Row as _, postgres::PgRow};

use crate::{
    backend::poll_behind,
    dialect::{Dialect as _, Row},
    error::{column, token_of},
    postgres::{
        connection::{
            arg::Arg::{self, MaybeText, Number, Span, Text},
            sessions::first,
        },
        store::Postgres,
        waiting::entries::{Notice, QueueEntry},
    },
    servers::times::span,
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

/// For how long an entry counts as alive with this many others before it. It may miss one
/// heartbeat.
fn life(others: u32) -> Duration {
    ENTRY_LIFE + poll_behind::<Postgres>(others) * 2
}

impl Postgres {
    /// Releases a grant. The first waiter gets the lock, if its entry allows that. `entry` joins
    /// the end of the queue if the head has room. Returns the new token, and whether `entry` is in
    /// the queue, or `None` if nothing was done.
    pub(super) async fn release_to_waiter(
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
        let rows = self.run_once(&self.server.sql.release_to_waiter, &args).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (token, queued) = (column(row, 0)?, column(row, 1)?);
        self.crowded.insert(&grant.name);
        self.refill_if(&grant.name, &rows, 2).await;
        Ok(Some((token_of(token)?, queued)))
    }

    /// Moves entries from the tail of the queue to its head, if this column of a statement's answer
    /// says that it is time. The statement itself succeeded, so a failure here is only logged: the
    /// next statement moves them.
    pub(super) async fn refill_if(&self, name: &LockName, rows: &[PgRow], column: usize) {
        if rows.first().is_some_and(|row| row.try_get(column).unwrap_or(false))
            && let Err(error) = self.refill(name).await
        {
            tracing::trace!(target: "leasehold", %name, %error, "the head of the queue was not refilled; the next heartbeat tries again");
        }
    }

    async fn refill(&self, name: &LockName) -> Result<(), Error> {
        self.run_repeatable(&self.server.sql.refill, &[Text(name.as_str())]).await.map(drop)
    }

    /// One attempt: the request gets the lock if the lock is free for it; otherwise its entry, if
    /// it has one, is in the queue afterwards. `None` if the name has no row, or the owner was
    /// abandoned.
    pub(super) async fn attempt_or_enqueue(
        &self,
        request: &Request,
        entry: Option<&QueueEntry>,
    ) -> Result<Option<Row>, Error> {
        if let Some(entry) = entry
            && let Some(row) = self.append(request, entry).await?
        {
            return Ok(Some(row));
        }
        let (owner, id) = (request.owner.to_string(), entry.map(|entry| entry.id.as_str()));
        let [name, owner, label, lease, floor] = wanted(request, &owner);
        let [waits, turn, near, far] =
            [MaybeText(id), Span(TURN), Span(life(0)), Span(life(u32::MAX))];
        let args = [name, owner, label, lease, floor, waits, turn, near, far];
        let sql = &self.server.sql;
        let statement = match request.mode {
            Mode::Shared => &sql.attempt_reader,
            _ => &sql.attempt,
        };
        for again in [true, false] {
            let rows = self.run_repeatable(statement, &args).await?;
            let Some(row) = rows.first() else {
                entry.inspect(|entry| entry.queued.store(false, Ordering::Relaxed));
                return Ok(None);
            };
            let answer = self.read_entry(row, request, entry)?;
            let short = column(row, "short")?;
            if short {
                self.refill(&request.name).await?;
            }
            // Otherwise all entries at the head were dead, and others moved there: try once more.
            if !again || !short || answer.granted || answer.is_held() {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// Adds a writer's entry to the end of a short queue of living entries behind a holder. `None`
    /// if the row is not like that: only an attempt knows what to do then.
    async fn append(&self, request: &Request, entry: &QueueEntry) -> Result<Option<Row>, Error> {
        if request.mode == Mode::Shared || entry.queued.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let owner = request.owner.to_string();
        let args = [Text(request.name.as_str()), Text(&owner), Text(&entry.id), Span(life(0))];
        let rows = self.run_repeatable(&self.server.sql.append, &args).await?;
        rows.first().map(|row| self.read_entry(row, request, Some(entry))).transpose()
    }

    /// Reads the answer of a statement, and notes where the entry stands in the queue.
    fn read_entry(
        &self,
        row: &PgRow,
        request: &Request,
        entry: Option<&QueueEntry>,
    ) -> Result<Row, Error> {
        let at: Option<i32> = column(row, "position")?;
        let behind: bool = column(row, "behind")?;
        let granted = column(row, "granted")?;
        if granted {
            token_of(column(row, "token")?)?;
        }
        let mut read = Self::row(row, entry.map(|entry| entry.id.as_str()))?;
        read.granted = granted;
        // How many entries of the tail come before it. Only a heartbeat counts them, not an
        // attempt.
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

    /// The poll of an entry: a heartbeat if it has nothing to do but wait, or a confirmation of a
    /// grant. `None`: the entry must ask for the lock.
    pub(super) async fn heartbeat(
        &self,
        request: &Request,
        entry: &QueueEntry,
    ) -> Result<Option<Row>, Error> {
        let (owner, name) = (request.owner.to_string(), Text(request.name.as_str()));
        let notice = match entry.take_notice() {
            None if entry.queued.load(Ordering::Relaxed) => {
                // A message that arrives meanwhile comes first.
                tokio::select! {
                    () = self.server.wait_for_idle() => {}
                    () = entry.wake.notified() => {}
                }
                entry.take_notice()
            }
            notice => notice,
        };
        match notice {
            Some(Notice::Granted) => {
                let args = [name, Text(&owner), Span(request.lease)];
                let rows = self.run_repeatable(&self.server.sql.confirm, &args).await?;
                let Some(row) = rows.first() else { return Ok(None) };
                let token = column(row, 0)?;
                token_of(token)?;
                let others_wait: bool = column(row, 1)?;
                if others_wait {
                    self.waited.insert(&request.owner);
                }
                let (name, label) = (request.name.as_str(), request.label.as_str());
                let row = Row::read(name, Some(&owner), Some(label), token, 0, request.lease)?;
                let waiting = Some(others_wait.into());
                Ok(Some(Row { granted: true, waiting, ..row }))
            }
            Some(Notice::Ask) => Ok(None),
            None if !entry.queued.load(Ordering::Relaxed) => Ok(None),
            None => {
                let alive = Span(life(entry.others.load(Ordering::Relaxed)));
                let args = [name, Text(&owner), Text(&entry.id), alive];
                let rows = self.run_repeatable(&self.server.sql.heartbeat, &args).await?;
                let Some(row) = rows.first() else { return Ok(None) };
                let read = self.read_entry(row, request, Some(entry))?;
                self.refill_if(&request.name, &rows, row.column("short").ordinal()).await;
                self.server.prepare_handoff();
                let ours = read.owner == Some(request.owner);
                let waits = read.is_held() && read.refuses(request) && !ours;
                Ok((waits && entry.queued.load(Ordering::Relaxed)).then_some(read))
            }
        }
    }

    /// Whether it is the turn of the entry with this id.
    pub(super) async fn is_turn(&self, name: &LockName, id: &str) -> Result<bool, Error> {
        let args = [Text(name.as_str()), Text(id)];
        Ok(first(&self.run_repeatable(&self.server.sql.is_turn, &args).await?)? == Some(true))
    }

    /// Removes the entry with this id, and releases what it was granted.
    pub(super) async fn leave(&self, request: &Request, id: &str) -> Result<(), Error> {
        let owner = request.owner.to_string();
        let args = [Text(request.name.as_str()), Text(&owner), Text(id)];
        let left = self.run_repeatable(&self.server.sql.leave, &args).await;
        let rows = left.map_err(|error| error.at(Self::KIND, "leave"))?;
        self.refill_if(&request.name, &rows, 0).await;
        self.leave_readers(request).await
    }

    /// Removes a reader that gives up from those who share a lock.
    pub(super) async fn leave_readers(&self, request: &Request) -> Result<(), Error> {
        let left = Grant::new(request, FencingToken::ZERO);
        if request.mode == Mode::Shared && !self.part(&left).await? {
            self.release(&left, None).await?;
        }
        Ok(())
    }

    /// Reads a row for operators, with the number of all waiters.
    pub(super) fn shown(row: &PgRow) -> Result<Row, Error> {
        let waiting: Option<i64> = column(row, "waiting_all")?;
        let waiting = Some(waiting.unwrap_or(0).unsigned_abs());
        Ok(Row { waiting, ..Self::row(row, None)? })
    }

    /// Reads a row for a client that may have this entry in the queue.
    pub(super) fn row(row: &PgRow, entry: Option<&str>) -> Result<Row, Error> {
        let mut read = Row::read(
            column(row, "name")?,
            column(row, "owner")?,
            column(row, "label")?,
            column(row, "token")?,
            column(row, "version")?,
            span(column(row, "remaining")?),
        )?;
        read.kept = column(row, "kept")?;
        read.set_readers(column(row, "readers")?);
        let waiting: Option<i64> = column(row, "waiting")?;
        read.waiting = Some(waiting.unwrap_or(0).unsigned_abs());
        let first: Option<&str> = column(row, "first")?;
        if first.is_some() && first != entry {
            read.others_first = span(column(row, "turn")?).max(Duration::from_millis(1));
        }
        Ok(read)
    }
}
