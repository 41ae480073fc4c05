//! What all parts of this store share: the server, the settings, the queue entries, and the
//! guarantees.

use std::{sync::Arc, time::Duration};

use lock_core::{Error, ErrorKind, Guarantees, LockName, Mutex, OwnerId};
use sqlx::{Row as _, SqlStr, postgres::PgRow};
use tokio::sync::{OnceCell, watch};

use super::{
    connection::{
        arg::Arg,
        server::Server,
        table_check::{found, stored},
    },
    guarantees::{Terms, guarantees},
    statements::check_version,
    waiting::{
        entries::QueueEntries,
        listen::{Delivery, Listening},
    },
};
use crate::{
    bounded_set::BoundedSet,
    error::general,
    servers::{sweeping::Sweeping, times::span},
    settings::{Settings, agree},
};

/// Which tables of a store exist.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExistingTables {
    pub(super) settings: bool,
    pub(super) all: bool,
}

#[derive(Debug)]
pub(super) struct Postgres {
    pub(super) server: Arc<Server>,
    pub(super) settings: Settings,
    listens: bool,
    pub(super) entries: Arc<QueueEntries>,
    /// Owners of grants for whose names others waited at the time of the grant.
    pub(super) waited: BoundedSet<OwnerId>,
    /// Names that others held or waited for when this client last read their rows. For these names
    /// the client first reads the row, and enters the queue, before it tries to take the lock.
    pub(super) crowded: BoundedSet<LockName>,
    pub(super) listening: OnceCell<Listening>,
    pub(super) promised: Mutex<(Terms, Arc<Guarantees>)>,
    pub(super) sweeping: Sweeping,
    agreed: OnceCell<()>,
}

impl Postgres {
    pub(super) async fn new(
        server: Server,
        settings: Settings,
        listens: bool,
    ) -> Result<Self, Error> {
        let longest_lease = settings.longest_lease_of_new();
        let (longest_ever, connection) = (Duration::ZERO, settings.connection);
        let (quarantined, flushes, push) = (true, true, false);
        let terms = Terms { longest_lease, longest_ever, quarantined, flushes, push, connection };
        let this = Self {
            server: Arc::new(server),
            settings,
            listens,
            entries: Arc::new(QueueEntries::new()),
            waited: BoundedSet::default(),
            crowded: BoundedSet::default(),
            listening: OnceCell::new(),
            promised: Mutex::new((terms, Arc::new(guarantees(terms)))),
            sweeping: Sweeping::default(),
            agreed: OnceCell::new(),
        };
        if listens {
            this.server.sessions_will_be_known();
        }
        let server = Arc::downgrade(&this.server);
        this.server.connections.when_at_rest(move || {
            if let Some(server) = server.upgrade() {
                tokio::spawn(async move { server.prepare_handoff().await });
            }
        });
        // `init` completes a store whose row of settings is missing. Every other step first checks
        // that the store is ready.
        let settings = this.existing_tables().await?.settings;
        if settings && this.server.number(&this.server.sql.version).await?.is_some() {
            this.ready().await?;
        }
        this.listening().await;
        Ok(this)
    }

    async fn listening(&self) -> &Listening {
        let start = || async {
            if !self.listens {
                return Listening::off();
            }
            Listening::start(&self.server, &self.entries).await
        };
        self.listening.get_or_init(start).await
    }

    /// Whether messages arrive at this client, and each change of that.
    pub(super) fn delivery(&self) -> watch::Receiver<Delivery> {
        let never = || watch::channel(Delivery::default()).1;
        self.listening.get().map_or_else(never, Listening::delivery)
    }

    /// Listens again, if the client listened on a runtime that has ended.
    pub(super) fn keep_listening(&self) {
        if let Some(listening) = self.listening.get() {
            listening.run(&self.server, &self.entries);
        }
    }

    /// Reads the store's settings, once. Refuses the store if they differ from this client's
    /// options.
    pub(super) async fn ready(&self) -> Result<(), Error> {
        let settle = || async {
            check_version(self.version().await?)?;
            let (longest, _) = self.learn().await?;
            agree(self.settings.longest_lease, longest)
        };
        self.agreed.get_or_try_init(settle).await.copied()
    }

    fn set_promises(
        &self,
        longest_lease: Duration,
        longest_ever: Duration,
        quarantined: bool,
        flushes: bool,
    ) {
        let (push, connection) = (self.delivery().borrow().works, self.settings.connection);
        let mut promised = self.promised.lock();
        let longest_ever = longest_ever.max(promised.0.longest_ever);
        let terms = Terms { longest_lease, longest_ever, quarantined, flushes, push, connection };
        *promised = (terms, Arc::new(guarantees(terms)));
    }

    pub(super) fn longest_ever(&self) -> Duration {
        self.promised.lock().0.longest_ever
    }

    /// Runs a statement of a store that is ready.
    pub(super) async fn run_once(
        &self,
        statement: &SqlStr,
        args: &[Arg<'_>],
    ) -> Result<Vec<PgRow>, Error> {
        self.ready().await?;
        self.server.run_once(statement, args).await
    }

    /// The same for a statement that is safe to run twice.
    pub(super) async fn run_repeatable(
        &self,
        statement: &SqlStr,
        args: &[Arg<'_>],
    ) -> Result<Vec<PgRow>, Error> {
        self.ready().await?;
        self.server.run_repeatable(statement, args).await
    }

    /// Which tables exist. This comes before any statement that names one.
    pub(super) async fn existing_tables(&self) -> Result<ExistingTables, Error> {
        let rows = self.server.run_repeatable(&self.server.exists, &[]).await?;
        let found = found(&rows)?;
        if let Err(refusal) = stored(&rows) {
            // If the operator mends the tables after a loss of data, they may have old locks.
            let distrust = self.server.run_once(&self.server.sql.distrust_all, &[]).await;
            if let Err(error) = distrust {
                tracing::trace!(target: "leasehold", %error, "the marker of a store that is refused was not changed");
            }
            return Err(refusal);
        }
        let settings = found.first() == Some(&true);
        Ok(ExistingTables { settings, all: found.iter().all(|is_there| *is_there) })
    }

    /// The version of the records. Tables may have been made after this client connected, so this
    /// first refuses those of another role.
    pub(super) async fn version(&self) -> Result<i64, Error> {
        self.existing_tables().await?;
        let stored = self.server.number(&self.server.sql.version).await?;
        let message = "the row of settings is gone; `leasehold init` makes it anew";
        stored.ok_or_else(|| Error::new(ErrorKind::Config, message))
    }

    /// Reads the settings that all clients share: the longest lease, and whether there is a
    /// quarantine.
    pub(super) async fn learn(&self) -> Result<(Duration, bool), Error> {
        let rows = self.server.run_repeatable(&self.server.sql.settings, &[]).await?;
        let Some(row) = rows.first() else {
            return Err(Error::new(ErrorKind::Config, "the row of settings is gone"));
        };
        let longest = span(row.try_get(0).map_err(general)?);
        let longest_ever = span(row.try_get(1).map_err(general)?);
        let quarantined = row.try_get(2).map_err(general)?;
        let flushes = row.try_get(3).map_err(general)?;
        self.set_promises(longest, longest_ever, quarantined, flushes);
        Ok((longest, quarantined))
    }
}
