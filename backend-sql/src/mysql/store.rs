//! A store on a server: what this client knows of it, and its settings.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use lock_core::{Error, ErrorKind, Guarantees, RwLock};
use sqlx::{Row as _, mysql::MySqlRow};
use tokio::sync::OnceCell;

use super::{
    connection::server::Server,
    guarantees::{Durability, guarantees},
    removals::Removals,
    rows::text,
    statements::{
        Argument::{self, Bytes},
        Statement, Statements, refuse_view,
    },
    waiting::Holds,
};
use crate::{
    error::general,
    servers::{sweeping::Sweeping, times::span},
    settings::{Settings, agree, check_version},
    tables::Tables,
    waiting::QueueEntries,
};

#[derive(Debug)]
pub(super) struct Mysql {
    pub(super) server: Arc<Server>,
    pub(super) sql: Arc<Statements>,
    pub(super) tables: Tables,
    pub(super) settings: Settings,
    pub(super) entries: Arc<QueueEntries>,
    pub(super) removals: Removals,
    pub(super) holds: Arc<Holds>,
    pub(super) promised: RwLock<Arc<Guarantees>>,
    pub(super) agreed: OnceCell<()>,
    /// The highest watermark that this client has read.
    pub(super) watermark: AtomicI64,
    pub(super) sweeping: Sweeping,
}

impl Mysql {
    pub(super) async fn new(
        server: Server,
        tables: Tables,
        settings: Settings,
    ) -> Result<Self, Error> {
        let longest = settings.longest_lease_of_new();
        let promised = guarantees(longest, &Durability::default());
        let promised = RwLock::new(Arc::new(promised));
        let (server, sql) = (Arc::new(server), Arc::new(Statements::new(&tables)));
        let (removals, agreed) = (Removals::default(), OnceCell::new());
        let entries = Arc::<QueueEntries>::default();
        let holds = Holds::new(&server, &sql, &entries);
        let (watermark, sweeping) = (AtomicI64::new(0), Sweeping::default());
        let this = Self {
            server,
            sql,
            tables,
            settings,
            entries,
            removals,
            holds,
            promised,
            agreed,
            watermark,
            sweeping,
        };
        this.promise(longest).await?;
        // `init` completes a store whose `init` was interrupted. Every other step first checks that
        // the store is ready.
        if this.is_there("{settings}").await?
            && this.number(&this.sql.version, &[]).await?.is_some()
        {
            this.ready().await?;
        }
        Ok(this)
    }

    /// Whether a table is there: before any statement names it.
    pub(super) async fn is_there(&self, table: &str) -> Result<bool, Error> {
        let table = self.tables.fill(table, '`');
        let name = table.trim_matches('`');
        let found = self.number(&self.sql.exists, &[Bytes(name.as_bytes())]).await?;
        refuse_view(name, found)
    }

    /// Reads the store's longest lease, once. Refuses the store if it differs from this client's
    /// option.
    pub(super) async fn ready(&self) -> Result<&Server, Error> {
        self.agreed.get_or_try_init(|| self.agree()).await?;
        Ok(&self.server)
    }

    pub(super) async fn agree(&self) -> Result<(), Error> {
        check_version(self.version().await?)?;
        self.is_there("{locks}").await?;
        self.is_there("{queue}").await?;
        self.is_there("{records}").await?;
        let longest = self.longest_lease().await?;
        agree(self.settings.longest_lease, longest)?;
        let watermark = self.number(&self.sql.watermark, &[]).await?;
        self.note_watermark(watermark.unwrap_or_default());
        self.promise(longest).await
    }

    pub(super) fn note_watermark(&self, watermark: i64) {
        self.watermark.fetch_max(watermark, Ordering::Relaxed);
    }

    /// The highest watermark that this client has read, as an argument.
    pub(super) fn known_watermark(&self) -> i64 {
        self.watermark.load(Ordering::Relaxed)
    }

    /// The version of the records. Before it is read, since the tables may have been made since we
    /// connected, a view is refused.
    pub(super) async fn version(&self) -> Result<i64, Error> {
        self.is_there("{settings}").await?;
        let stored = self.number(&self.sql.version, &[]).await?;
        stored.ok_or_else(|| Error::new(ErrorKind::Config, "the row of settings is gone"))
    }

    pub(super) async fn longest_lease(&self) -> Result<Duration, Error> {
        longest_lease_of(&self.server.rows(&self.sql.settings, &[]).await?)
    }

    /// States the promises by what the server's settings are now.
    pub(super) async fn promise(&self, longest: Duration) -> Result<(), Error> {
        let rows = self.server.rows(&self.sql.durability, &[]).await?;
        let pair = |row: &MySqlRow| Ok((text(row, 0)?, text(row, 1)?));
        let variables: Result<Vec<_>, sqlx::Error> = rows.iter().map(pair).collect();
        let variables = variables.map_err(general)?;
        let pairs = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let durability = Durability::read(pairs);
        let mut promised = guarantees(longest, &durability);
        promised.connection = self.settings.connection;
        self.holds.bells.set_reach(durability.one_server);
        *self.promised.write() = Arc::new(promised);
        Ok(())
    }

    /// Runs a statement that reads one number.
    pub(super) async fn number(
        &self,
        statement: &Statement,
        arguments: &[Argument<'_>],
    ) -> Result<Option<i64>, Error> {
        let rows = self.server.rows(statement, arguments).await?;
        let read = |row: &MySqlRow| row.try_get::<Option<i64>, _>(0);
        Ok(rows.first().map(read).transpose().map_err(general)?.flatten())
    }
}

/// The longest lease, of the rows that begin with the settings.
pub(super) fn longest_lease_of(rows: &[MySqlRow]) -> Result<Duration, Error> {
    let Some(row) = rows.first() else {
        return Err(Error::new(ErrorKind::Config, "the row of settings is gone"));
    };
    check_session(row)?;
    row.try_get(0).map(span).map_err(general)
}

/// Refuses sessions in which nothing would ever be committed. Any time zone, SQL mode and isolation
/// level will do.
fn check_session(settings: &MySqlRow) -> Result<(), Error> {
    if settings.try_get::<i64, _>(1).map_err(general)? == 0 {
        let message = "autocommit is off in the sessions of this pool, so that no statement would ever end its \
                       transaction; it must be on";
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(())
}
