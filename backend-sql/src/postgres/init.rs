//! The tables and the settings in them.

use std::{sync::Arc, time::Duration};

use lock_core::{Error, ErrorKind, Init, StoreSettings};
use sqlx::AssertSqlSafe;

use super::{
    backend::Postgres,
    config::PostgresBuilder,
    server::{interval, micros, span},
    statements,
};
use crate::{dialect::Dialect as _, settings::check_longest};

impl Postgres {
    /// Whether the tables are there.
    pub(super) async fn is_there(&self) -> Result<bool, Error> {
        let table = self.server.tables.fill("{settings}", '"');
        let read = || {
            let query = sqlx::query_scalar::<_, bool>(self.server.sql.exists.clone()).bind(&table);
            query.fetch_all(&self.server.pool)
        };
        Ok(self.server.again(read).await?.first() == Some(&true))
    }

    /// The longest lease, and whether there is a quarantine.
    pub(super) async fn stored(&self) -> Result<(Duration, bool), Error> {
        let read = || {
            let query = sqlx::query_as::<_, (i64, bool)>(self.server.sql.settings.clone());
            query.fetch_all(&self.server.pool)
        };
        match self.server.again(read).await?.pop() {
            Some((longest, quarantined)) => Ok((span(longest), quarantined)),
            None => Err(Error::new(ErrorKind::Config, "the row of settings is gone")),
        }
    }

    /// Makes the tables if need be, and changes settings.
    pub(super) async fn settle(&self, init: &Init) -> Result<StoreSettings, Error> {
        let (server, sql) = (&self.server, &self.server.sql);
        if let Some(longest) = init.longest_lease {
            check_longest(longest, PostgresBuilder::SHORTEST_LEASE)?;
        }
        if !self.is_there().await? {
            let longest = init.longest_lease;
            let longest = longest.unwrap_or_else(|| self.settings.longest_lease_of_new());
            let schema: Arc<str> = statements::schema(&server.tables, micros(longest)).into();
            let make = || async {
                sqlx::raw_sql(AssertSqlSafe(Arc::clone(&schema))).execute(&server.pool).await
            };
            server.patiently(make).await?;
        } else if let Some(longest) = init.longest_lease {
            let query = || {
                let query = sqlx::query(sql.set_longest_lease.clone());
                query.bind(interval(longest)).execute(&server.pool)
            };
            server.patiently(query).await?;
        }
        if let Some(quarantined) = init.quarantine {
            let query = || {
                let query = sqlx::query(sql.set_quarantine.clone());
                query.bind(quarantined).execute(&server.pool)
            };
            server.patiently(query).await?;
        }
        let (longest, quarantined) = self.stored().await?;
        self.set_promises(longest, quarantined);
        if init.first_use {
            server.execute(&sql.open_at_once).await?;
        }
        let mut settings = StoreSettings::new(longest, Some(quarantined));
        settings.grants_in =
            self.quarantine().await?.map_or(Duration::ZERO, |held_back| held_back.remaining);
        Ok(settings)
    }
}
