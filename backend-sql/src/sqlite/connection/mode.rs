//! Checks which users of this machine may read the file. Each of them can open its `-shm`
//! read-only, and take WAL's write lock there and keep it. Then no lock is granted or renewed.

use std::{io, path::Path};

use lock_core::{Error, ErrorKind};

use super::place::files;
use crate::sqlite::sys;

/// Makes an empty file, if there is none. SQLite gives the files beside it the same mode, whatever
/// the umask is.
pub(crate) fn make(path: &Path, group: bool) -> Result<(), Error> {
    let made = match sys::create(path) {
        // Only after it was made, because the umask may remove a bit of the group's.
        Ok(()) if group => sys::give_to_group(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    made.map_err(|error| {
        let message = format!("{path:?} cannot be opened: it is not there, and cannot be made");
        Error::new(ErrorKind::Unavailable, message).with_source(error)
    })
}

/// Refuses the file, or a file beside it, by name, if users other than its user and its group may
/// read or write it.
pub(crate) fn check(path: &Path) -> Result<(), Error> {
    let Ok(files) = files(path) else { return Ok(()) };
    let Some((file, advice)) = sys::exposed(&files) else { return Ok(()) };
    let message = format!(
        "{file:?} may be read by other users of this machine, and each of them could end all of its locks; {advice}"
    );
    Err(Error::new(ErrorKind::Config, message))
}
