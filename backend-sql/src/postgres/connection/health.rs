//! The present state of the server: its oldest snapshot and its free sessions.

use std::time::Duration;

use lock_core::Error;
use sqlx::{Row as _, SqlStr};

use super::server::Server;
use crate::{
    error::general,
    tunables::{
        CONNECTIONS,
        postgres::{FEW_SESSIONS, FULL_QUEUE, OLD_SNAPSHOT},
    },
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Health {
    /// The age of the oldest snapshot in the database.
    oldest: Duration,
    /// How much of its queue of notifications is in use, in percent.
    messages: i64,
    room: SessionCount,
}

/// How many sessions the server allows and has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionCount {
    /// How many the server allows.
    pub(crate) most: i64,
    used: i64,
}

impl SessionCount {
    pub(crate) async fn of(server: &Server) -> Result<Self, Error> {
        let [most, used] = numbers(server, &server.sql.session_count).await?;
        Ok(Self { most, used })
    }

    pub(crate) fn left(&self) -> i64 {
        self.most - self.used
    }
}

/// The numbers in the only row of an answer.
async fn numbers<const N: usize>(server: &Server, statement: &SqlStr) -> Result<[i64; N], Error> {
    let rows = server.run_repeatable(statement, &[]).await?;
    let Some(row) = rows.first() else { return Err(general(sqlx::Error::RowNotFound)) };
    let mut numbers = [0; N];
    for (at, number) in numbers.iter_mut().enumerate() {
        *number = row.try_get(at).map_err(general)?;
    }
    Ok(numbers)
}

impl Health {
    pub(crate) async fn of(server: &Server) -> Result<Self, Error> {
        let [oldest, messages, most, used] = numbers(server, &server.sql.health).await?;
        let oldest = Duration::from_secs(oldest.unsigned_abs());
        Ok(Self { oldest, messages, room: SessionCount { most, used } })
    }

    /// What an operator should know, one sentence each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.oldest >= OLD_SNAPSHOT {
            let age = humantime::format_duration(self.oldest);
            warnings.push(format!(
                "a transaction in this database is {age} old, such as that of a dump or of a session that is idle in its \
                 transaction: until it ends, a lock gets slower with every grant; end it, and give the locks a database \
                 of their own"
            ));
        }
        if self.messages >= FULL_QUEUE {
            let full = self.messages;
            warnings.push(format!(
                "the server's queue of notifications is {full}% full, because a session that listens has a transaction open: \
                 end it; when the queue is full, no message arrives, and waiters find their locks only when they poll"
            ));
        }
        if self.room.left() < FEW_SESSIONS {
            let (left, most, busy) = (self.room.left(), self.room.most, CONNECTIONS + 1);
            warnings.push(format!(
                "the server has {left} of {most} sessions left: a client needs one, one that waits two, and a busy one up \
                 to {busy}; raise max_connections, or put a pooler between"
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_warned_only_of_what_hurts() {
        let of = |oldest, messages, sessions| {
            let room = SessionCount { most: 100, used: sessions };
            Health { oldest: Duration::from_secs(oldest), messages, room }.warnings()
        };
        assert!(of(0, 0, 10).is_empty());
        let told = of(90, 75, 95);
        assert!(told[0].contains("1m 30s old") && told[1].contains("75% full"), "{told:?}");
        assert!(told[2].contains("5 of 100"), "{told:?}");
    }
}
