//! The tables and the settings in them.

use std::time::Duration;

use lock_core::{Error, ErrorKind, Init, StoreSettings};
use sqlx::Row as _;
use tokio::time::{sleep, timeout};

use super::{
    arg::Arg::{Span, Text, Truth},
    backend::Postgres,
    config::PostgresBuilder,
    server::first,
    statements,
};
use crate::{
    dialect::Dialect as _,
    error::general,
    reach::{micros, span},
    settings::check_longest,
};

/// How soon rows that others had locked are tried again.
const DOUBTS_AGAIN: Duration = Duration::from_millis(20);

impl Postgres {
    /// Whether the tables are there. Refuses a search path by which another role's operators may come before the
    /// server's own.
    pub(super) async fn is_there(&self) -> Result<bool, Error> {
        let table = self.server.tables.fill("{settings}", '"');
        let rows = self.server.again(&self.server.sql.exists, &[Text(&table)]).await?;
        let path = rows.first().map(|row| row.try_get(1)).transpose().map_err(general)?;
        let path: Vec<String> = path.unwrap_or_default();
        // What is temporary has no operators.
        let mut schemas = path.iter().filter(|schema| !schema.starts_with("pg_temp"));
        match schemas.next() {
            Some(schema) if schema != "pg_catalog" => {
                let message = format!(
                    "search_path names the schema {schema:?} before pg_catalog, so that whoever may create there could \
                     replace what our statements use; leave pg_catalog out of it, and it is searched first"
                );
                Err(Error::new(ErrorKind::Config, message))
            }
            _ => Ok(first(&rows)? == Some(true)),
        }
    }

    /// Takes over what the store agrees on: the longest lease, and whether there is a quarantine.
    pub(super) async fn learn(&self) -> Result<(Duration, bool), Error> {
        let rows = self.server.again(&self.server.sql.settings, &[]).await?;
        let Some(row) = rows.first() else {
            return Err(Error::new(ErrorKind::Config, "the row of settings is gone"));
        };
        let longest = span(row.try_get(0).map_err(general)?);
        let longest_ever = span(row.try_get(1).map_err(general)?);
        let quarantined = row.try_get(2).map_err(general)?;
        self.set_promises(longest, longest_ever, quarantined);
        Ok((longest, quarantined))
    }

    /// Lets no row count as proof that nothing was lost, while nothing is granted.
    async fn doubt(&self) -> Result<(), Error> {
        while first(&self.server.once(&self.server.sql.doubt, &[]).await?)? == Some(true) {
            sleep(DOUBTS_AGAIN).await;
        }
        Ok(())
    }

    /// Makes the tables if need be, and changes settings.
    pub(super) async fn settle(&self, init: &Init) -> Result<StoreSettings, Error> {
        init.refuse_restored("keep all clients stopped for one longest lease after a restore")?;
        let (server, sql) = (&self.server, &self.server.sql);
        if let Some(longest) = init.longest_lease {
            check_longest(longest, PostgresBuilder::SHORTEST_LEASE)?;
        }
        if !self.is_there().await? {
            let longest = init.longest_lease;
            let longest = longest.unwrap_or_else(|| self.settings.longest_lease_of_new());
            server.script(statements::schema(&server.tables, micros(longest))).await?;
        } else if let Some(longest) = init.longest_lease {
            server.once(&sql.set_longest_lease, &[Span(longest)]).await?;
        }
        if let Some(quarantined) = init.quarantine {
            server.once(&sql.set_quarantine, &[Truth(quarantined)]).await?;
            timeout(server.timeout, self.doubt()).await.map_err(|_| {
                let message = "other transactions keep rows of locks; end them, and repeat init";
                Error::new(ErrorKind::Unavailable, message)
            })??;
        }
        let (longest, quarantined) = self.learn().await?;
        if init.first_use {
            server.once(&sql.open_at_once, &[]).await?;
        }
        let mut settings = StoreSettings::new(longest, Some(quarantined));
        settings.grants_in =
            self.quarantine().await?.map_or(Duration::ZERO, |held_back| held_back.remaining);
        Ok(settings)
    }
}
