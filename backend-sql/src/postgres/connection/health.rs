//! The present state of the server: its oldest snapshot and its free sessions.

use std::time::Duration;

use lock_core::Error;
use sqlx::Row as _;

use super::server::Server;
use crate::{
    error::general,
    tunables::{
        CONNECTIONS,
        postgres::{FEW_SESSIONS, OLD_SNAPSHOT},
    },
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Health {
    /// How old the oldest snapshot of the database is.
    oldest: Duration,
    /// How many sessions there may be.
    pub(crate) most: i64,
    sessions: i64,
}

impl Health {
    pub(crate) async fn of(server: &Server) -> Result<Self, Error> {
        let rows = server.again(&server.sql.health, &[]).await?;
        let Some(row) = rows.first() else { return Err(general(sqlx::Error::RowNotFound)) };
        let number = |at: usize| row.try_get::<i64, _>(at).map_err(general);
        let oldest = Duration::from_secs(number(0)?.unsigned_abs());
        Ok(Self { oldest, most: number(1)?, sessions: number(2)? })
    }

    pub(crate) fn left(&self) -> i64 {
        self.most - self.sessions
    }

    /// What an operator should know, a sentence each.
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
        if self.left() < FEW_SESSIONS {
            let (left, most, busy) = (self.left(), self.most, CONNECTIONS + 1);
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
    fn only_what_hurts_is_told() {
        let of = |oldest, sessions| {
            Health { oldest: Duration::from_secs(oldest), most: 100, sessions }.warnings()
        };
        assert!(of(0, 10).is_empty());
        let told = of(90, 95);
        assert!(told[0].contains("1m 30s old") && told[1].contains("5 of 100"), "{told:?}");
    }
}
