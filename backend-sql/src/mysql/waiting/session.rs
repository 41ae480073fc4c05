//! A session for bells. It is outside of the pool, since a statement may wait on it for long.

use std::{future::Future, io, sync::Arc, time::Duration};

use lock_core::OwnerId;
use sqlx::{
    Connection as _, Error, MySqlConnection, Row as _,
    mysql::{MySqlDatabaseError, MySqlRow},
};
use tokio::time::{Instant, timeout};

use crate::{
    mysql::{
        connection::server::Server,
        statements::{
            Argument::{Number, Text},
            Statement, Statements,
        },
    },
    tunables::mysql::{BELL_ANSWER, FREE_FOR_BELLS, LISTEN},
};

/// What the name of a bell begins with. The owner follows, so the name has fewer than MySQL's 64
/// characters.
pub(in crate::mysql) const BELL: &str = "leasehold.";

/// The server has resolved a deadlock of such locks: MySQL's number, and MariaDB's.
const DEADLOCK: [u16; 2] = [3058, 1213];

#[derive(Debug)]
pub(super) struct Session {
    connection: MySqlConnection,
    sql: Arc<Statements>,
    /// When it last heard a bell, or was opened.
    pub(super) used: Instant,
}

impl Session {
    /// Fails if few of the server's sessions are left.
    pub(super) async fn open(server: &Server, sql: &Arc<Statements>) -> Result<Self, Error> {
        let options = server.connections.pool.connect_options();
        let connection = in_time(BELL_ANSWER, MySqlConnection::connect_with(&options)).await?;
        let mut session = Self { connection, sql: Arc::clone(sql), used: Instant::now() };
        match session.has_room(FREE_FOR_BELLS).await {
            Ok(()) => Ok(session),
            Err(error) => {
                session.close().await;
                Err(error)
            }
        }
    }

    /// Fails if less than this part of the sessions is free that the server allows, or that it
    /// allows to this user.
    pub(super) async fn has_room(&mut self, part: (i64, i64)) -> Result<(), Error> {
        let used: Vec<u8> = self.row(|sql| &sql.sessions).await?.try_get_unchecked(1)?;
        let used = String::from_utf8_lossy(&used).parse().unwrap_or(i64::MAX);
        let most = self.row(|sql| &sql.most_sessions).await?;
        let mut is_there = has_free(part, used, most.try_get_unchecked(0)?);
        let most: i64 = most.try_get_unchecked(1)?;
        if most > 0 {
            let used = self.row(|sql| &sql.sessions_of_user).await?.try_get_unchecked(0)?;
            is_there &= has_free(part, used, most);
        }
        if !is_there {
            let why = "too few of the server's sessions are free to use one for bells";
            return Err(Error::Io(io::Error::other(why)));
        }
        Ok(())
    }

    async fn row(&mut self, of: impl Fn(&Statements) -> &Statement) -> Result<MySqlRow, Error> {
        let row = of(&self.sql).with(&[]).fetch_one(&mut self.connection);
        in_time(BELL_ANSWER, row).await
    }

    pub(super) async fn hang(&mut self, owner: OwnerId) -> Result<(), Error> {
        let hang = self.sql.hang_bell.with(&[Text(&bell_of(owner))]);
        in_time(BELL_ANSWER, hang.execute(&mut self.connection)).await.map(drop)
    }

    pub(super) async fn ring(&mut self, owner: OwnerId) -> Result<(), Error> {
        let ring = self.sql.ring_bell.with(&[Text(&bell_of(owner))]);
        in_time(BELL_ANSWER, ring.execute(&mut self.connection)).await.map(drop)
    }

    /// Waits until the bell of an owner rings; `false` if it has not for [`LISTEN`].
    pub(super) async fn hears(&mut self, owner: OwnerId) -> Result<bool, Error> {
        let seconds = Number(LISTEN.as_secs().cast_signed());
        let hears = self.sql.await_bell.with(&[Text(&bell_of(owner)), seconds]);
        let heard = in_time(LISTEN + BELL_ANSWER, hears.fetch_one(&mut self.connection)).await;
        self.used = Instant::now();
        match heard {
            Ok(row) => Ok(row.try_get::<Option<i64>, _>(0)? == Some(1)),
            Err(error) if is_deadlock(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn ping(&mut self) -> Result<(), Error> {
        in_time(BELL_ANSWER, self.connection.ping()).await
    }

    pub(super) async fn close(self) {
        let _ = timeout(BELL_ANSWER, self.connection.close()).await;
    }
}

/// Whether at least this part of `most` is free.
fn has_free((part, all): (i64, i64), used: i64, most: i64) -> bool {
    most.saturating_sub(used).saturating_mul(all) >= most.saturating_mul(part)
}

fn bell_of(owner: OwnerId) -> String {
    format!("{BELL}{owner}")
}

fn is_deadlock(error: &Error) -> bool {
    let error = error.as_database_error();
    let error = error.and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    error.is_some_and(|error| DEADLOCK.contains(&error.number()))
}

async fn in_time<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let answer = timeout(limit, answer).await;
    answer.unwrap_or_else(|_| Err(Error::Io(io::ErrorKind::TimedOut.into())))
}
