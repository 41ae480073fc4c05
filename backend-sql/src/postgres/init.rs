//! The tables and the settings in them.

use std::time::Duration;

use lock_core::{Error, ErrorKind, Init, StoreSettings};
use sqlx::Row as _;

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

impl Postgres {
    /// Whether the tables are there.
    pub(super) async fn is_there(&self) -> Result<bool, Error> {
        let table = self.server.tables.fill("{settings}", '"');
        let rows = self.server.again(&self.server.sql.exists, &[Text(&table)]).await?;
        Ok(first(&rows)? == Some(true))
    }

    /// The longest lease, and whether there is a quarantine.
    pub(super) async fn stored(&self) -> Result<(Duration, bool), Error> {
        let rows = self.server.again(&self.server.sql.settings, &[]).await?;
        let Some(row) = rows.first() else {
            return Err(Error::new(ErrorKind::Config, "the row of settings is gone"));
        };
        let longest = row.try_get(0).map_err(general)?;
        Ok((span(longest), row.try_get(1).map_err(general)?))
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
        }
        let (longest, quarantined) = self.stored().await?;
        self.set_promises(longest, quarantined);
        if init.first_use {
            server.once(&sql.open_at_once, &[]).await?;
        }
        let mut settings = StoreSettings::new(longest, Some(quarantined));
        settings.grants_in =
            self.quarantine().await?.map_or(Duration::ZERO, |held_back| held_back.remaining);
        Ok(settings)
    }
}
