//! What all Unix systems have.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat, major, minor};
use rustix::process::geteuid;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use super::system::NULL;

/// Whether the effective user is root.
pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

/// Makes a folder for this user only, if it is missing. Returns what is wrong with one that is
/// there.
pub(crate) fn make_private(folder: &Path) -> io::Result<Option<String>> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = folder.metadata()?;
    Ok(is_not_ours_alone(found.uid(), found.mode()))
}

/// Makes a new file for this user only.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn is_not_ours_alone(owner: u32, mode: u32) -> Option<String> {
    let us = geteuid().as_raw();
    if owner != us {
        Some(format!("belongs to user {owner}; it must belong to user {us}"))
    } else if mode & 0o077 != 0 {
        Some(format!("has mode {:04o}, so others may use it; it must be 0700", mode & 0o7777))
    } else {
        None
    }
}

/// What stdin is, if it has already ended.
pub(crate) fn unfit_stdin() -> io::Result<Option<&'static str>> {
    let stat = fstat(io::stdin())?;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Some("a file"),
        FileType::CharacterDevice if (major(stat.st_rdev), minor(stat.st_rdev)) == NULL => {
            Some("/dev/null")
        }
        _ => None,
    })
}

/// Whether a write to stderr would not block now.
pub(crate) fn takes_more() -> bool {
    let stderr = io::stderr();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&now)).is_ok_and(|ready| ready > 0)
}

/// A terminal that delivers each key at once and without echo, until this is dropped.
pub(crate) struct Keyboard {
    keyboard: OwnedFd,
    before: Termios,
}

impl Keyboard {
    /// Opens stdin, which must be a terminal.
    pub(crate) fn open() -> io::Result<(Self, mpsc::UnboundedReceiver<u8>)> {
        let keyboard = io::stdin().as_fd().try_clone_to_owned()?;
        let before = tcgetattr(&keyboard)?;
        let mut at_once = before.clone();
        at_once.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        tcsetattr(&keyboard, OptionalActions::Now, &at_once)?;
        let (typed, keys) = mpsc::unbounded_channel();
        let mut read = File::from(keyboard.try_clone()?);
        // The thread blocks in a read, and ends with the process.
        std::thread::spawn(move || {
            let mut key = [0];
            while read.read_exact(&mut key).is_ok() && typed.send(key[0]).is_ok() {}
        });
        Ok((Self { keyboard, before }, keys))
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.keyboard, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_another_user_is_named() {
        let us = geteuid().as_raw();
        assert_eq!(is_not_ours_alone(us, 0o40700), None);
        let wrong = is_not_ours_alone(us + 1, 0o40700).unwrap();
        assert!(wrong.contains(&format!("user {}", us + 1)), "{wrong}");
    }
}
