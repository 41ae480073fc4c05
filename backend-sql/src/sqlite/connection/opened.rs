//! The database that a client has open, and whether it is still the one at the path.

use std::path::{Path, PathBuf};

use lock_core::Mutex;
use tokio::sync::OnceCell;

use super::{
    database::{Database, Lent},
    place::Place,
};

#[derive(Debug)]
pub(crate) struct Opened {
    pub(super) database: Database,
    path: PathBuf,
    /// `None` for a database in memory.
    place: Mutex<Option<Place>>,
    /// Set once this client agrees with the settings in it.
    pub(crate) agreed: OnceCell<()>,
}

impl Opened {
    /// Call this after the first statement: only then SQLite has the files beside the database.
    pub(super) fn new(database: Database, path: &Path) -> Self {
        let place = Mutex::new(Place::now(path));
        Self { database, path: path.to_owned(), place, agreed: OnceCell::new() }
    }

    /// The connection for one statement.
    pub(crate) async fn lend(&self) -> Result<Lent<'_>, sqlx::Error> {
        self.database.lend().await
    }

    pub(super) fn has_all_open(&self) -> bool {
        self.place.lock().as_ref().is_some_and(Place::is_open)
    }

    /// Whether every file that is open is still at its path. If not, other clients use other files.
    /// A connection of our own has all three open all the time; a pool may have none.
    pub(super) fn is_in_place(&self) -> bool {
        let mut place = self.place.lock();
        let Some(known) = &*place else { return true };
        if known.is_same() {
            return true;
        }
        if matches!(self.database, Database::Own(_)) || known.is_left() {
            return false;
        }
        if let Some(now) = Place::now(&self.path) {
            *place = Some(now);
        }
        true
    }
}
