//! Statements that several steps share.

use lock_core::{Error, FencingToken, Grant, LockName, Mode, OwnerId, Request};
use sqlx::mysql::MySqlRow;

use crate::{
    dialect::{Dialect as _, Left},
    error::token_of,
    mysql::{
        rows::insert_id,
        statements::{
            Argument::{self, Bytes, Null, Number},
            Statement,
        },
        store::Mysql,
    },
    servers::times::micros,
    tunables::TRIES,
};

/// The last argument of a release whose owner has not checked its token.
const UNCHECKED: i64 = 1;

/// Whether the client checks that a token is above the watermark.
#[derive(Clone, Copy)]
pub(super) enum Check {
    /// The row was checked when this client held it before.
    Before = 0,
    /// After the grant.
    After = 2,
}

impl Mysql {
    /// Runs a statement that changes one owner's live grant. Returns the row's new version.
    pub(super) async fn change(
        &self,
        statement: &Statement,
        grant: &Grant,
        last: Option<i64>,
    ) -> Result<Option<i64>, Error> {
        let owner = grant.owner.to_string();
        let mut arguments = vec![Bytes(grant.name.as_str().as_bytes()), Bytes(owner.as_bytes())];
        arguments.extend(last.map(Number));
        let answer = self.ready().await?.execute(statement, &arguments).await?;
        Ok(insert_id(&answer))
    }

    /// Reads the row of a name, for an owner or an operator.
    pub(super) async fn read_of(
        &self,
        name: &LockName,
        owner: Option<OwnerId>,
    ) -> Result<Option<MySqlRow>, Error> {
        let owner = owner.map(|owner| owner.to_string());
        let mut arguments = vec![Bytes(name.as_str().as_bytes())];
        arguments.extend(owner.as_ref().map(|owner| Bytes(owner.as_bytes())));
        let rows = self.ready().await?.rows(&self.sql.read_row, &arguments).await?;
        Ok(rows.into_iter().next())
    }

    /// Removes some of these readers, whose leases have ended, from a name that they share.
    pub(super) async fn make_room(&self, name: &LockName, ended: &[String]) -> Result<(), Error> {
        let Some(first) = ended.first() else { return Ok(()) };
        let removed = (0..4).map(|at| Bytes(ended.get(at).unwrap_or(first).as_bytes()));
        let mut arguments = vec![Bytes(name.as_str().as_bytes())];
        arguments.extend(removed);
        self.ready().await?.execute_repeatable(&self.sql.make_room, &arguments).await.map(drop)
    }

    /// Takes a lock whose row may be new. Returns the token.
    pub(super) async fn grant(
        &self,
        statement: &Statement,
        request: &Request,
        version: Option<i64>,
    ) -> Result<Option<FencingToken>, Error> {
        for _ in 0..TRIES {
            let granted = self.grant_unchecked(statement, request, version, Check::After).await?;
            let Some(token) = granted else { return Ok(None) };
            if self.check_token(request, token).await? {
                return Ok(Some(token));
            }
        }
        // Other readers have a grant that they are about to give back.
        Ok(None)
    }

    /// Whether a token is above all forgotten ones. If not, gives the grant back: this client's
    /// next token is higher.
    pub(super) async fn check_token(
        &self,
        request: &Request,
        token: FencingToken,
    ) -> Result<bool, Error> {
        let (name, number) =
            (Bytes(request.name.as_str().as_bytes()), Number(token.get().cast_signed()));
        let is_shared = request.mode == Mode::Shared;
        let Some(watermark) = self.number(&self.sql.forgotten, &[name, number]).await? else {
            if is_shared {
                self.ready().await?.execute_repeatable(&self.sql.checked, &[name, number]).await?;
            }
            return Ok(true);
        };
        self.note_watermark(watermark);
        self.withdraw(&Grant::new(request, token).with_mode(request.mode)).await?;
        Ok(false)
    }

    /// Gives back what an owner may have been granted, on which nobody has relied.
    pub(super) async fn withdraw(&self, grant: &Grant) -> Result<(), Error> {
        if grant.mode == Mode::Shared && self.part(grant).await? {
            return Ok(());
        }
        self.change(&self.sql.release, grant, Some(UNCHECKED)).await.map(drop)
    }

    /// Gives a grant back, and the lock to the first waiter.
    pub(super) async fn hand_off(&self, grant: &Grant) -> Result<Left, Error> {
        let owner = grant.owner.to_string();
        let whose = [Bytes(grant.name.as_str().as_bytes()), Bytes(owner.as_bytes())];
        let answer = self.ready().await?.execute(&self.sql.handoff, &whose).await?;
        Ok(if answer.rows_affected() > 0 { Left::Taken } else { Left::NotHeld })
    }

    /// Runs a statement that takes a lock. Returns the token.
    pub(super) async fn grant_unchecked(
        &self,
        statement: &Statement,
        request: &Request,
        version: Option<i64>,
        check: Check,
    ) -> Result<Option<FencingToken>, Error> {
        let owner = request.owner.to_string();
        let mut arguments = self.asked(request, &owner);
        let floor = Number(request.floor.get().cast_signed().saturating_add(1));
        arguments.extend([version.map_or(Null, Number), Number(check as i64), floor]);
        let answer = self.ready().await?.execute_repeatable(statement, &arguments).await?;
        let Some(token) = insert_id(&answer).map(token_of).transpose()? else { return Ok(None) };
        self.remove_entry(request);
        self.holds.begin(request);
        Ok(Some(token))
    }

    /// Begins to remove the entry of a request that was granted the lock, if it has one.
    pub(super) fn remove_entry(&self, request: &Request) {
        if self.entries.of(request.owner).is_some_and(|entry| entry.is_queued()) {
            self.removals.begin(&self.server, &self.sql, request);
        }
    }

    /// Gives a grant back, and the lock to the next request of this process, if nobody waits.
    pub(super) async fn pass(
        &self,
        grant: &Grant,
        next: &Request,
    ) -> Result<Option<FencingToken>, Error> {
        let (owner, before) = (next.owner.to_string(), grant.owner.to_string());
        let mut arguments = self.asked(next, &owner);
        arguments.push(Bytes(before.as_bytes()));
        let answer = self.ready().await?.execute(&self.sql.hand_on, &arguments).await?;
        insert_id(&answer).map(token_of).transpose()
    }

    /// The first arguments of every statement that grants. `owner` is the owner as text.
    fn asked<'a>(&self, request: &'a Request, owner: &'a str) -> Vec<Argument<'a>> {
        let above = self.known_watermark().max(request.floor.get().cast_signed());
        vec![
            Bytes(request.name.as_str().as_bytes()),
            Bytes(owner.as_bytes()),
            Bytes(request.label.as_str().as_bytes()),
            Number(micros(request.lease)),
            Number(above.saturating_add(1)),
        ]
    }
}
