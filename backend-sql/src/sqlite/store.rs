//! A store in a file: what this client knows of it, and its settings.

use std::{sync::Arc, time::Duration};

use lock_core::{Error, ErrorKind, Guarantees, RwLock};

use super::{
    connection::{
        open::{File, Statement},
        opened::Opened,
    },
    epoch,
    guarantees::guarantees,
    statements::Statements,
    waiting::bell::Bells,
};
use crate::{
    settings::{agree, check_version},
    waiting::QueueEntries,
};

#[derive(Debug)]
pub(super) struct Sqlite {
    pub(super) file: File,
    pub(super) sql: Statements,
    pub(super) epoch: String,
    pub(super) entries: Arc<QueueEntries>,
    pub(super) bells: Arc<Bells>,
    pub(super) promised: RwLock<Arc<Guarantees>>,
}

impl Sqlite {
    pub(super) async fn new(file: File) -> Result<Self, Error> {
        let longest = file.settings.longest_lease_of_new();
        let entries = Arc::new(QueueEntries::default());
        let bells = Arc::new(Bells::new(file.path.clone(), Arc::clone(&entries)));
        let sqlite = Self {
            sql: Statements::new(&file.tables),
            epoch: epoch::current()?,
            promised: RwLock::new(Arc::new(guarantees(longest, &file.path, bells.works()))),
            entries,
            bells,
            file,
        };
        // The first use that writes makes a missing file, with this client's settings.
        if sqlite.file.is_there() {
            sqlite.ready().await?;
        }
        Ok(sqlite)
    }

    /// Reads the store's longest lease, once. Refuses the store if it differs from this client's
    /// option.
    pub(super) async fn ready(&self) -> Result<(), Error> {
        self.database().await.map(drop)
    }

    async fn agree(&self) -> Result<(), Error> {
        check_version(self.version().await?)?;
        let longest = self.longest_lease().await?;
        agree(self.file.settings.longest_lease, longest)?;
        self.set_promises(longest);
        Ok(())
    }

    /// The version of the records.
    pub(super) async fn version(&self) -> Result<i64, Error> {
        let stored: Option<i64> = self.file.value(&self.sql.version).await?;
        stored.ok_or_else(|| Error::new(ErrorKind::Config, "the row of settings is gone"))
    }

    pub(super) async fn longest_lease(&self) -> Result<Duration, Error> {
        self.file.value(&self.sql.longest_lease).await.map(milliseconds)
    }

    pub(super) fn set_promises(&self, longest: Duration) {
        let promised = guarantees(longest, &self.file.path, self.bells.works());
        *self.promised.write() = Arc::new(promised);
    }

    /// Runs a statement that answers no rows, once this client agrees with the store: see
    /// [`File::write`].
    pub(super) async fn write(&self, build: impl Fn() -> Statement) -> Result<(), Error> {
        self.ready().await?;
        self.file.write(build).await
    }

    /// The database for a statement that only reads; `None` while there is no file to read.
    pub(super) async fn reader(&self) -> Result<Option<Arc<Opened>>, Error> {
        if self.file.is_there() { self.database().await.map(Some) } else { Ok(None) }
    }

    /// The database, once this client agrees with the store.
    pub(super) async fn database(&self) -> Result<Arc<Opened>, Error> {
        let opened = self.file.database().await?;
        opened.agreed.get_or_try_init(|| self.agree()).await?;
        Ok(opened)
    }
}

pub(super) fn milliseconds(stored: i64) -> Duration {
    Duration::from_millis(u64::try_from(stored).unwrap_or(0))
}
