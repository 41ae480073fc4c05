//! `init`: makes the tables, and changes the settings in them.

use std::{collections::HashSet, time::Duration};

use lock_core::{Error, ErrorKind, Init, StoreSettings};
use sqlx::{Row as _, SqlStr};
use tokio::time::{sleep, timeout};

use crate::{
    dialect::Dialect as _,
    error::general,
    postgres::{
        connection::{
            arg::Arg::{self, Number, Span, Truth},
            sessions::first,
        },
        statements::{self, check_version},
        store::Postgres,
    },
    servers::times::micros,
    settings::check_longest,
    tunables::postgres::{ROWS_AGAIN, SHORTEST_LEASE},
};

impl Postgres {
    /// Repeats a statement that skips rows that others have locked, until it skips none.
    async fn until_none_skipped(&self, statement: &SqlStr, args: &[Arg<'_>]) -> Result<(), Error> {
        self.in_time(async {
            while first(&self.server.run_once(statement, args).await?)? == Some(true) {
                sleep(ROWS_AGAIN).await;
            }
            Ok(())
        })
        .await
    }

    /// Waits for the end of all transactions that write to locks now. One of their statements may
    /// have read the old marker and now wait for a row. When it gets the row, it grants by the old
    /// marker, since a statement sees what was committed when it began.
    async fn wait_for_writers(&self) -> Result<(), Error> {
        let mut before = self.writers().await?;
        self.in_time(async {
            while !before.is_empty() {
                sleep(ROWS_AGAIN).await;
                let now = self.writers().await?;
                before.retain(|writer| now.contains(writer));
            }
            Ok(())
        })
        .await
    }

    async fn writers(&self) -> Result<HashSet<String>, Error> {
        let rows = self.server.run_repeatable(&self.server.sql.writers, &[]).await?;
        rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(general)
    }

    async fn in_time(&self, wait: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
        timeout(self.server.timeout, wait).await.unwrap_or_else(|_| {
            let message = "other transactions have locked rows of locks; end them, and repeat init";
            Err(Error::new(ErrorKind::Unavailable, message))
        })
    }

    /// Makes the tables if need be, and changes settings.
    pub(super) async fn apply_init(&self, init: &Init) -> Result<StoreSettings, Error> {
        init.refuse_restored("keep all clients stopped for one longest lease after a restore")?;
        if init.first_use && init.reset_tokens {
            let message = "a first use grants at once, but setting tokens back takes a quarantine; \
                           choose one of the two";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        let (server, sql) = (&self.server, &self.server.sql);
        if let Some(longest) = init.longest_lease {
            check_longest(longest, SHORTEST_LEASE)?;
        }
        let longest = init.longest_lease.unwrap_or_else(|| self.settings.longest_lease_of_new());
        let (tables, longest) = (&server.tables, micros(longest));
        let found = self.existing_tables().await?;
        // The table may be there without its row: the same SQL makes that.
        let stored = match found.settings {
            true => server.number(&sql.version).await?,
            false => None,
        };
        stored.map_or(Ok(()), check_version)?;
        if !found.all || stored.is_none() {
            server.script(statements::schema(tables, longest)).await?;
        }
        if let Some(longest) = init.longest_lease.filter(|_| found.settings) {
            server.run_once(&sql.set_longest_lease, &[Span(longest)]).await?;
        }
        if let Some(quarantined) = init.quarantine {
            server.run_once(&sql.set_quarantine, &[Truth(quarantined)]).await?;
            if quarantined {
                self.wait_for_writers().await?;
            }
            self.until_none_skipped(&sql.distrust_rows, &[]).await?;
        }
        let (longest, quarantined) = self.learn().await?;
        if init.reset_tokens {
            let longest = self.longest_ever().max(longest);
            // First make sure that nothing is granted any more, not by the proof in a row either.
            // Then set the tokens back.
            server.run_once(&sql.reset_watermark, &[Span(longest)]).await?;
            self.wait_for_writers().await?;
            self.until_none_skipped(&sql.distrust_rows, &[]).await?;
            self.until_none_skipped(&sql.reset_tokens, &[Number(micros(longest))]).await?;
            server.run_once(&sql.reset_watermark, &[Span(longest)]).await?;
        }
        if init.first_use {
            server.run_once(&sql.open_at_once, &[]).await?;
        }
        let held_back = self.quarantine().await?;
        if init.records_complete {
            // By now the marker is there, also after a loss of data.
            server.run_once(&sql.set_records_complete, &[]).await?;
        }
        let mut settings = StoreSettings::new(longest, Some(quarantined));
        settings.grants_in = held_back.map_or(Duration::ZERO, |held_back| held_back.remaining);
        Ok(settings)
    }
}
