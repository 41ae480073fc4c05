//! What all Unix systems have.

use std::{
    fs::{self, File, Metadata, Permissions},
    io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use lock_core::{Assumption, Error};
use rustix::fs::{Access, FileType, Mode, OFlags, access};

/// Whether clients can wake each other.
pub(crate) const HAS_PIPES: bool = true;

/// The mode for the user alone, and the mode for the user and a group.
pub(super) const OWN: u32 = 0o600;
const GROUP: u32 = 0o660;

/// What must be true here besides, because it cannot be checked.
pub(crate) fn assumptions() -> Vec<Assumption> {
    Vec::new()
}

/// The path in a URL.
pub(crate) fn file_path(path: String) -> PathBuf {
    path.into()
}

/// Lets the users of the file's group use it.
pub(crate) fn give_to_group(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(GROUP))
}

/// Whether this user may read and write the file, if it exists, and make files in its folder.
pub(crate) fn may_use(folder: &Path, file: Option<&Path>) -> io::Result<()> {
    if let Some(file) = file {
        access(file, Access::READ_OK | Access::WRITE_OK)?;
    }
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// The first of these files of one folder that users other than its user and its group may read or
/// write; and what to do.
pub(crate) fn exposed(files: &[PathBuf]) -> Option<(&Path, &'static str)> {
    let others = |path: &Path, bits| {
        fs::metadata(path).is_ok_and(|found| found.permissions().mode() & bits != 0)
    };
    // A user who may not enter a folder reaches no file in it. The folder's group may differ from
    // the file's.
    if !files.first()?.ancestors().skip(1).all(|folder| others(folder, 0o011)) {
        return None;
    }
    let open = files.iter().find(|file| others(file, 0o006))?;
    Some((open, "its mode must be such as 0600, or 0660 with a group: chmod o-rwx"))
}

/// A file, whatever its name is. While a process has it open, no other file gets the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file at this path, also behind a symbolic link.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|found| Self::of(&found))
    }

    /// The file of this name, which may itself be a symbolic link.
    pub(crate) fn named(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().map(|found| Self::of(&found))
    }

    #[expect(clippy::unnecessary_cast, reason = "other systems have other types")]
    fn of(found: &Metadata) -> Self {
        Self { device: found.dev() as u64, inode: found.ino() as u64 }
    }
}

/// Whether the file has other names. `found` is what the file system says of it.
pub(crate) fn has_links(_: &Path, found: &Metadata) -> bool {
    found.nlink() > 1
}

/// Whether opening a pipe failed because nobody reads it.
pub(crate) fn has_no_reader(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())
}

/// Opens a pipe for writing without waiting. Fails if nobody reads it.
pub(crate) fn open_pipe(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let pipe = rustix::fs::open(path, flags, Mode::empty())?;
    let found = FileType::from_raw_mode(rustix::fs::fstat(&pipe)?.st_mode);
    if found != FileType::Fifo {
        return Err(io::Error::other("it is no pipe"));
    }
    Ok(pipe.into())
}

/// The error of a client that does not know its clock.
pub(super) fn unknown_clock(of: &str, error: io::Error) -> Error {
    let message = format!("cannot read {of}, which identifies the clock of leases");
    Error::new(lock_core::ErrorKind::Config, message).with_source(error)
}
