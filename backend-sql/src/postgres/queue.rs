//! The queue in a lock's row, seen from here.

use std::{sync::atomic::Ordering, time::Duration};

use lock_core::{Error, FencingToken, Grant, LockName, Request};
use sqlx::{Row as _, postgres::PgRow};

use super::{
    arg::Arg::{self, MaybeText, Number, Span, Text},
    entries::QueueEntry,
    server::first,
    store::Postgres,
};
use crate::{
    dialect::{Dialect as _, Row, token_of},
    error::general,
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

impl Postgres {
    /// Releases a grant. The first waiter gets the lock, if its entry allows that. `entry` goes to the end of the queue.
    /// Returns the new token, or `None` if nothing was done.
    pub(super) async fn pass(
        &self,
        grant: &Grant,
        entry: Option<&QueueEntry>,
    ) -> Result<Option<FencingToken>, Error> {
        let owner = grant.owner.to_string();
        let args = [
            Text(grant.name.as_str()),
            Text(&owner),
            Span(TURN),
            MaybeText(entry.map(|entry| entry.id.as_str())),
            Span(ENTRY_LIFE),
        ];
        let rows = self.once(&self.server.sql.pass, &args).await?;
        let Some(token) = first(&rows)? else { return Ok(None) };
        self.crowded.note(&grant.name, true);
        token_of(token).map(Some)
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
        let waits = [MaybeText(id), Span(TURN), Span(ENTRY_LIFE)];
        let args = [name, owner, label, lease, floor, waits[0], waits[1], waits[2]];
        let rows = self.again(&self.server.sql.ask, &args).await?;
        let at = rows.first().map(|row| row.try_get("place")).transpose().map_err(general)?;
        let at: Option<i32> = at.flatten();
        if let Some(entry) = entry {
            entry.queued.store(at.is_some(), Ordering::Relaxed);
        }
        let Some(row) = rows.first() else { return Ok(None) };
        let before_us = at.map_or(0, |at| at.unsigned_abs().saturating_sub(1));
        let granted = row.try_get("granted").map_err(general)?;
        if granted {
            token_of(row.try_get("token").map_err(general)?)?;
        }
        let row = Row { before_us, granted, ..Self::row(row, id)? };
        if granted && row.waiting > Some(0) {
            self.waited.note(request.owner);
        }
        Ok(Some(row))
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
        left.map(drop).map_err(|error| error.at(Self::KIND, "leave"))
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
        let waiting: Option<i32> = row.try_get("waiting")?;
        let first: Option<&str> = row.try_get("first")?;
        let (turn, kept) = (span(row.try_get("turn")?), row.try_get("kept")?);
        Ok(read.map(|mut read| {
            read.kept = kept;
            read.waiting = Some(waiting.unwrap_or(0).unsigned_abs().into());
            if first.is_some() && first != entry {
                read.others_first = turn.max(Duration::from_millis(1));
            }
            read
        }))
    }
}
