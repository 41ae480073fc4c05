//! Checks which users of this machine may read the file. Each of them can open its `-shm`
//! read-only, and take WAL's write lock there and keep it. Then no lock is granted or renewed.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use lock_core::{Error, ErrorKind};

/// The mode for the user alone, and the mode for the user and a group.
const OWN: u32 = 0o600;
const GROUP: u32 = 0o660;

/// Makes an empty file, if there is none. SQLite gives the files beside it the same mode, whatever
/// the umask is.
pub(crate) fn make(path: &Path, group: bool) -> Result<(), Error> {
    let made = match create(path) {
        // Only after it was made, because the umask may remove a bit of the group's.
        Ok(()) if group => fs::set_permissions(path, fs::Permissions::from_mode(GROUP)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    made.map_err(|error| {
        let message = format!("{path:?} cannot be opened: it is not there, and cannot be made");
        Error::new(ErrorKind::Unavailable, message).with_source(error)
    })
}

/// Does not open the file: a process that closes any descriptor of it loses the locks that its
/// SQLite connections have on it.
#[cfg(target_os = "linux")]
fn create(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    mknodat(CWD, path, FileType::RegularFile, Mode::from_raw_mode(OWN), 0).map_err(Into::into)
}

/// If another task of this process makes the same file at the same time, it may lose its first lock
/// on the file.
#[cfg(not(target_os = "linux"))]
fn create(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;

    fs::OpenOptions::new().write(true).create_new(true).mode(OWN).open(path).map(drop)
}

/// Refuses the file, or a file beside it, by name, if users other than its user and its group may
/// read or write it.
pub(crate) fn check(path: &Path) -> Result<(), Error> {
    let Some(file) = exposed(path) else { return Ok(()) };
    let message = format!(
        "{file:?} may be read by other users of this machine, and each of them could end all of its locks; its mode \
         must be such as 0600, or 0660 with a group: chmod o-rwx"
    );
    Err(Error::new(ErrorKind::Config, message))
}

/// The first of the database's files that others may read or write.
fn exposed(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    let others = |path: &Path, bits| {
        fs::metadata(path).is_ok_and(|found| found.permissions().mode() & bits != 0)
    };
    // A user who may not enter a folder reaches no file in it. The folder's group may differ from
    // the file's.
    if !path.ancestors().skip(1).all(|folder| others(folder, 0o011)) {
        return None;
    }
    let beside = |end| {
        let mut file = path.clone().into_os_string();
        file.push(end);
        PathBuf::from(file)
    };
    ["", "-wal", "-shm"].map(beside).into_iter().find(|file| others(file, 0o006))
}
