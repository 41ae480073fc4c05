//! macOS, and other Unix systems that nobody has tried.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use lock_core::{Env as _, Error, OwnerId, SystemEnv};
use rustix::fs::{CWD, RenameFlags, renameat_with};

pub(crate) use super::unix::*;
use super::unix::{OWN, unknown_clock};

/// Folders that others empty, and when.
pub(crate) const EMPTIED: &[(&str, &str)] = &[
    ("/private/tmp", "files that nobody has used for days are deleted there"),
    ("/private/var/tmp", "files that nobody has used for days are deleted there"),
    ("/private/var/folders", "it is emptied when the machine starts"),
];

/// Makes an empty file. Does not open it by this name: a process that closes any descriptor of it
/// loses the locks that its SQLite connections have on it.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!("-new-{}", OwnerId::from_bits(SystemEnv.random())));
    let new = PathBuf::from(new);
    fs::OpenOptions::new().write(true).create_new(true).mode(OWN).open(&new)?;
    let made = renameat_with(CWD, &new, CWD, path, RenameFlags::NOREPLACE);
    if made.is_err() {
        let _ = fs::remove_file(&new);
    }
    Ok(made?)
}

/// Folders are mounted here, never files.
pub(crate) fn is_mounted(_: &Path) -> bool {
    false
}

/// Which files this process has open cannot be read here.
pub(crate) fn is_open(_: FileId) -> bool {
    true
}

/// As for [`is_open`]: the file that was at the path may be open still.
pub(crate) fn is_left(_: &[PathBuf], _: Option<FileId>) -> bool {
    true
}

/// The flag of a file system that no other machine serves.
const LOCAL: u64 = 0x1000;
/// File systems in user space call themselves local, and may not be.
const USER_SPACE: [&str; 3] = ["macfuse", "osxfuse", "fuse"];

/// Why SQLite's locks may not exclude each other on the file system of this path; `None` if nothing
/// is known against it.
pub(crate) fn shared(path: &Path) -> Option<String> {
    let found = rustix::fs::statfs(path.parent().unwrap_or(Path::new("/"))).ok()?;
    let kind = found.f_fstypename.iter().take_while(|byte| **byte != 0);
    let kind: String = kind.map(|byte| char::from(*byte as u8)).collect();
    if u64::from(found.f_flags) & LOCAL == 0 {
        return Some(format!(
            "the file is on {kind}, where SQLite's locks do not exclude other machines"
        ));
    }
    USER_SPACE.iter().any(|known| kind.starts_with(known)).then(|| {
        format!(
            "the file is on {kind}, a file system in user space: it may be shared with other machines, and SQLite's locks \
             would not exclude those"
        )
    })
}

/// Identifies the boot, and so the clock of leases.
pub(crate) fn boot() -> Result<String, Error> {
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(known) = BOOT.get() {
        return Ok(known.clone());
    }
    let of = "the id of this boot (sysctl kern.bootsessionuuid)";
    let mut read = Command::new("/usr/sbin/sysctl");
    let answer = read.args(["-n", "kern.bootsessionuuid"]).output();
    let answer = answer.map_err(|error| unknown_clock(of, error))?;
    let id = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    if !answer.status.success() || id.is_empty() {
        let why = String::from_utf8_lossy(&answer.stderr).trim().to_owned();
        return Err(unknown_clock(of, io::Error::other(why)));
    }
    Ok(BOOT.get_or_init(|| id).clone())
}

/// The system call has no safe wrapper here.
pub(crate) fn make_pipe(path: &Path) -> io::Result<()> {
    let made = Command::new("/usr/bin/mkfifo").args(["-m", "600"]).arg(path).output()?;
    if made.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&made.stderr).trim().to_owned()))
}
