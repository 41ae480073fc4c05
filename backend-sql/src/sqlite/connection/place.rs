//! Whether every client of a file finds the same three files: the database, and the `-wal` and
//! `-shm` that SQLite puts beside it, by name. Two clients with the same database, and each with
//! its own `-wal` and `-shm`, both get a lock.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use lock_core::{Error, ErrorKind};

use crate::sqlite::sys::{self, FileId};

/// What SQLite adds to the name of the database.
const ENDS: [&str; 3] = ["", "-wal", "-shm"];

/// The three files, by their real names: SQLite follows a symbolic link to the database.
pub(crate) fn files(path: &Path) -> io::Result<[PathBuf; 3]> {
    let path = fs::canonicalize(path)?;
    Ok(ENDS.map(|end| {
        let mut file = path.clone().into_os_string();
        file.push(end);
        file.into()
    }))
}

/// Refuses files that another path may lead to, without those beside them: a mount point, as of a
/// container that mounts the file alone, a file with hard links, and a symbolic link beside the
/// database. A link that is made later is seen by those who come through it.
pub(crate) fn refuse_apart(path: &Path) -> Result<(), Error> {
    let Ok(files) = files(path) else { return Ok(()) };
    for file in files {
        let Some(why) = apart(&file) else { continue };
        let message = format!(
            "{file:?} {why}, so other clients may use it without the files beside it, and two would get the same lock; \
             each client must reach the folder of the file: mount the folder, or link to it by a symbolic link"
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(())
}

fn apart(file: &Path) -> Option<&'static str> {
    let found = fs::symlink_metadata(file).ok()?;
    if found.is_symlink() {
        Some("is a symbolic link")
    } else if sys::has_links(file, &found) {
        Some("has hard links")
    } else {
        sys::is_mounted(file).then_some("is mounted by itself")
    }
}

/// The files that were at the path when this process opened them.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    files: [PathBuf; 3],
    ids: [Option<FileId>; 3],
}

impl Place {
    /// The files at the path now. `None` for a database in memory.
    pub(crate) fn now(path: &Path) -> Option<Self> {
        let files = files(path).ok()?;
        let ids = [0, 1, 2].map(|at| FileId::named(&files[at]));
        ids[0].is_some().then(|| Self { path: path.to_owned(), files, ids })
    }

    /// Whether this process has all three open. If another client in it still has a deleted `-shm`
    /// open, SQLite goes on to use that one for all connections of the process, and makes none at
    /// the path.
    pub(crate) fn is_open(&self) -> bool {
        self.ids.iter().all(|id| id.is_some_and(sys::is_open))
    }

    /// Whether the same files are at the path as then.
    pub(crate) fn is_same(&self) -> bool {
        let beside = |at: usize| FileId::named(&self.files[at]);
        let quick = [FileId::at(&self.path), beside(1), beside(2)];
        // A folder on the way may have another name, and a symbolic link in its stead.
        quick == self.ids || Self::now(&self.path).is_some_and(|now| now.ids == self.ids)
    }

    /// Whether this process still has a file open that is at the path no more. A pool may have
    /// closed all its connections; SQLite then deletes the files beside the database, and makes new
    /// ones for the next connection.
    pub(crate) fn is_left(&self) -> bool {
        let moved = self.ids[0].filter(|id| FileId::at(&self.path) != Some(*id));
        sys::is_left(&self.files, moved)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_the_same_until_another_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let open = fs::File::create(&path).unwrap();
        let place = Place::now(&path).unwrap();
        assert!(
            place.is_same() && !place.is_left() && !place.is_open(),
            "the other two are missing"
        );
        fs::rename(&path, folder.path().join("b")).unwrap();
        assert!(!place.is_same() && place.is_left());
        fs::write(&path, "").unwrap();
        assert!(!place.is_same() && place.is_left());
        drop(open);
        assert!(!place.is_same() && !place.is_left());
    }

    #[test]
    fn a_folder_may_get_another_name_if_the_path_still_leads_there() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::create_dir(&old).unwrap();
        for name in ["locks.db", "locks.db-wal"] {
            fs::write(old.join(name), "").unwrap();
        }
        let place = Place::now(&old.join("locks.db")).unwrap();
        fs::rename(&old, &new).unwrap();
        assert!(!place.is_same());
        symlink(&new, &old).unwrap();
        assert!(place.is_same());
        fs::remove_file(new.join("locks.db-wal")).unwrap();
        assert!(!place.is_same());
    }
}
