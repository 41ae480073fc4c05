//! Windows.

use std::{
    fs::{self, File, Metadata},
    io,
    path::{Component, Path, PathBuf, Prefix},
    time::Duration,
};

use lock_core::{Assumption, Env as _, Error, SystemEnv};
use winsafe::{self as w, co};

/// Whether clients can wake each other.
pub(crate) const HAS_PIPES: bool = false;

/// Folders that others empty, and when.
pub(crate) const EMPTIED: &[(&str, &str)] =
    &[(r"\\?\C:\Windows\Temp", "cleaners delete old files there")];

/// What must be true here besides, because it cannot be checked.
pub(crate) fn assumptions() -> Vec<Assumption> {
    vec![Assumption::new(
        "file-is-not-for-others",
        "no user who may not hold its locks may open the file, as in a folder of the user's profile: leasehold does not read \
         access lists",
    )]
}

/// The path in a URL. The slash before a drive is no part of it: `/C:/locks.db`.
pub(crate) fn file_path(path: String) -> PathBuf {
    let rest = path.strip_prefix('/').unwrap_or_default();
    let has_drive = rest.starts_with(|first: char| first.is_ascii_alphabetic());
    if has_drive && rest[1..].starts_with(':') { rest.into() } else { path.into() }
}

/// Makes an empty file. Closing it ends no lock of another handle.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    fs::OpenOptions::new().write(true).create_new(true).open(path).map(drop)
}

/// A new file has the access list of its folder.
pub(crate) fn give_to_group(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether the file, if it exists, is not read-only. The rest shows when it is opened.
pub(crate) fn may_use(_: &Path, file: Option<&Path>) -> io::Result<()> {
    match file.map(fs::metadata).transpose()? {
        Some(found) if found.permissions().readonly() => {
            Err(io::ErrorKind::PermissionDenied.into())
        }
        _ => Ok(()),
    }
}

/// Access lists are not read: see [`assumptions`].
pub(crate) fn exposed(_: &[PathBuf]) -> Option<(&Path, &'static str)> {
    None
}

/// The file at a path. SQLite opens files so that nobody can move, replace or delete them
/// meanwhile, so it is the same as long as it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId;

impl FileId {
    /// The file at this path.
    pub(crate) fn at(_: &Path) -> Option<Self> {
        Some(Self)
    }

    /// The file of this name.
    pub(crate) fn named(_: &Path) -> Option<Self> {
        Some(Self)
    }
}

fn information(path: &Path) -> Option<w::BY_HANDLE_FILE_INFORMATION> {
    // SQLite may have the file open, and may delete it.
    let sharing = co::FILE_SHARE::READ | co::FILE_SHARE::WRITE | co::FILE_SHARE::DELETE;
    let (file, _) = w::HFILE::CreateFile(
        path.to_str()?,
        co::GENERIC::READ,
        Some(sharing),
        None,
        co::DISPOSITION::OPEN_EXISTING,
        co::FILE_ATTRIBUTE::NORMAL,
        None,
        None,
        None,
    )
    .ok()?;
    file.GetFileInformationByHandle().ok()
}

/// Whether the file has other names.
pub(crate) fn has_links(path: &Path, _: &Metadata) -> bool {
    information(path).is_some_and(|found| found.nNumberOfLinks > 1)
}

/// Folders are mounted here, never files.
pub(crate) fn is_mounted(_: &Path) -> bool {
    false
}

/// See [`FileId`].
pub(crate) fn is_open(_: FileId) -> bool {
    true
}

/// See [`FileId`].
pub(crate) fn is_left(_: &[PathBuf], _: Option<FileId>) -> bool {
    false
}

/// Why SQLite's locks may not exclude each other on the file system of this path; `None` if nothing
/// is known against it. The letter of a drive may stand for a share, which its full path names.
pub(crate) fn shared(path: &Path) -> Option<String> {
    let folder = fs::canonicalize(path.parent()?).ok()?;
    let Some(Component::Prefix(prefix)) = folder.components().next() else { return None };
    matches!(prefix.kind(), Prefix::UNC(..) | Prefix::VerbatimUNC(..)).then(|| {
        "the file is on a network share, where SQLite's locks do not exclude other machines"
            .to_owned()
    })
}

/// What the start of a boot is rounded to where the registry does not number boots. The clocks of
/// two processes may see it a little differently.
const BOOT_STEP: Duration = Duration::from_secs(600);

/// Identifies the boot, and so the clock of leases. Processes that do not agree on it are safe:
/// each waits for a full lease of what it finds of the other.
pub(crate) fn boot() -> Result<String, Error> {
    let host = std::env::var("COMPUTERNAME").unwrap_or_default();
    let key =
        r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters";
    let value =
        w::HKEY::LOCAL_MACHINE.RegGetValue(Some(key), Some("BootId"), co::RRF::RT_REG_DWORD);
    if let Ok(w::RegistryValue::Dword(number)) = value {
        return Ok(format!("{host} boot {number}"));
    }
    let up = SystemEnv.now().as_nanos() / 1_000;
    let began = SystemEnv.wall_micros().saturating_sub(up) / BOOT_STEP.as_micros() as u64;
    Ok(format!("{host} began {began}"))
}

pub(crate) fn make_pipe(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn open_pipe(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn has_no_reader(_: &io::Error) -> bool {
    false
}
