//! The default store: a SQLite file per user.
//!
//! The path depends only on the user and two environment variables. The directory is created later,
//! when the store is opened.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::exit::{Failure, cause};

const FILE: &str = "leasehold/locks.db";
const ADVICE: &str = "correct it, or name a store with --store or LEASEHOLD_STORE";

/// The part of the process's environment that determines the default store.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Whether the effective user is root.
    pub root: bool,
    /// `XDG_STATE_HOME`.
    pub state_home: Option<OsString>,
    /// `HOME`.
    pub home: Option<OsString>,
}

impl Surroundings {
    /// Those of this process.
    #[must_use]
    pub fn here() -> Self {
        Self {
            root: rustix::process::geteuid().is_root(),
            state_home: std::env::var_os("XDG_STATE_HOME"),
            home: std::env::var_os("HOME"),
        }
    }

    /// The path of the default store's file. It reads and creates nothing on disk.
    ///
    /// For root it is `/var/lib/leasehold/locks.db`, whatever the environment says: root's jobs run
    /// from cron, from services and through `sudo -E`, with different variables, and all of them
    /// must exclude each other. For other users it is `$XDG_STATE_HOME/leasehold/locks.db`, else
    /// `~/.local/state/leasehold/locks.db`.
    ///
    /// # Errors
    ///
    /// For a relative path in either variable, although the XDG specification says to ignore it:
    /// two processes with different paths would both get the lock. Also if `HOME` is needed and not
    /// set.
    pub fn default_store(&self) -> Result<PathBuf, Failure> {
        if self.root {
            return Ok(Path::new("/var/lib").join(FILE));
        }
        if let Some(state) = absolute("XDG_STATE_HOME", self.state_home.as_ref())? {
            return Ok(state.join(FILE));
        }
        match absolute("HOME", self.home.as_ref())? {
            Some(home) => Ok(home.join(".local/state").join(FILE)),
            None => Err(Failure::usage(format_args!(
                "cannot choose a default store: neither XDG_STATE_HOME nor HOME is set; \
                 name a store with --store or LEASEHOLD_STORE"
            ))),
        }
    }
}

/// Creates the directory of the default store, for its user only, if it is missing. Refuses a
/// directory that belongs to another user or that others may use, because they could replace the
/// store or end all its locks.
///
/// # Errors
///
/// If the directory cannot be created, or is refused. The message names the path and the reason.
pub fn make_directory(store: &Path) -> Result<(), Failure> {
    let Some(directory) = store.parent() else { return Ok(()) };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    match made.and_then(|()| directory.metadata()) {
        Ok(found) => is_ours_alone(directory, found.uid(), found.mode()),
        Err(error) => {
            let why = match error.kind() {
                io::ErrorKind::AlreadyExists => "there is a file in its place".to_owned(),
                _ => cause(&error),
            };
            Err(Failure::unavailable(format_args!(
                "cannot make the directory {directory:?} for the default store: {why}; \
                 or name another store with --store or LEASEHOLD_STORE"
            )))
        }
    }
}

fn is_ours_alone(directory: &Path, owner: u32, mode: u32) -> Result<(), Failure> {
    let us = rustix::process::geteuid().as_raw();
    let wrong = if owner != us {
        format!("belongs to user {owner}; it must belong to user {us}")
    } else if mode & 0o077 != 0 {
        format!("has mode {:04o}, so others may use it; it must be 0700", mode & 0o7777)
    } else {
        return Ok(());
    };
    Err(Failure::unavailable(format_args!(
        "the directory {directory:?} of the default store {wrong}; \
         or name another store with --store or LEASEHOLD_STORE"
    )))
}

/// The variable as an absolute path. An empty variable counts as not set.
fn absolute<'a>(name: &str, value: Option<&'a OsString>) -> Result<Option<&'a Path>, Failure> {
    match value.map(Path::new) {
        None => Ok(None),
        Some(path) if path.as_os_str().is_empty() => Ok(None),
        Some(path) if path.is_absolute() => Ok(Some(path)),
        Some(path) => Err(Failure::usage(format_args!(
            "{name} is {path:?}, but must be an absolute path; {ADVICE}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::exit::{UNAVAILABLE, USAGE};

    fn user(state_home: Option<&str>, home: Option<&str>) -> Surroundings {
        Surroundings {
            root: false,
            state_home: state_home.map(Into::into),
            home: home.map(Into::into),
        }
    }

    fn path(of: &Surroundings) -> String {
        of.default_store().unwrap().into_os_string().into_string().unwrap()
    }

    #[test]
    fn a_user_has_a_file_in_the_state_directory() {
        assert_eq!(path(&user(Some("/s"), Some("/h"))), "/s/leasehold/locks.db");
        assert_eq!(path(&user(None, Some("/h"))), "/h/.local/state/leasehold/locks.db");
        assert_eq!(path(&user(Some(""), Some("/h"))), "/h/.local/state/leasehold/locks.db");
    }

    #[test]
    fn root_has_one_file_in_every_environment() {
        for (state, home) in [(None, None), (Some("/s"), Some("/h")), (Some("x"), None)] {
            let root = Surroundings { root: true, ..user(state, home) };
            assert_eq!(path(&root), "/var/lib/leasehold/locks.db");
        }
    }

    #[test]
    fn a_missing_or_relative_path_is_refused_with_variable_and_value() {
        for (surroundings, words) in [
            (user(Some("state"), Some("/h")), ["XDG_STATE_HOME", "\"state\""]),
            (user(None, Some("../h")), ["HOME", "\"../h\""]),
            (user(None, None), ["XDG_STATE_HOME", "HOME"]),
            (user(Some(""), Some("")), ["XDG_STATE_HOME", "HOME"]),
        ] {
            let failure = surroundings.default_store().unwrap_err();
            assert_eq!(failure.code, USAGE);
            for word in words.into_iter().chain(["--store"]) {
                assert!(failure.message.contains(word), "{word} in {failure}");
            }
        }
    }

    #[test]
    fn the_directory_is_created_for_its_user_only() {
        let temporary = tempfile::tempdir().unwrap();
        let store = temporary.path().join("new/leasehold/locks.db");
        make_directory(&store).unwrap();
        make_directory(&store).unwrap();
        let made = store.parent().unwrap().metadata().unwrap();
        assert_eq!(made.permissions().mode() & 0o777, 0o700);
        assert!(!store.exists());
    }

    #[test]
    fn a_directory_that_others_own_or_may_use_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let store = temporary.path().join("leasehold/locks.db");
        make_directory(&store).unwrap();
        let directory = store.parent().unwrap();
        let us = rustix::process::geteuid().as_raw();
        for mode in [0o755, 0o730, 0o701] {
            std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode)).unwrap();
            let failure = make_directory(&store).unwrap_err();
            assert_eq!(failure.code, UNAVAILABLE);
            for part in [directory.to_str().unwrap(), &format!("{mode:04o}"), "0700"] {
                assert!(failure.message.contains(part), "{part} in {failure}");
            }
        }
        let failure = is_ours_alone(directory, us + 1, 0o700).unwrap_err();
        assert!(failure.message.contains(&format!("user {}", us + 1)), "{failure}");
    }

    #[test]
    fn a_file_in_place_of_the_directory_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let blocked = temporary.path().join("leasehold");
        std::fs::write(&blocked, "").unwrap();
        let failure = make_directory(&blocked.join("locks.db")).unwrap_err();
        assert_eq!(failure.code, UNAVAILABLE);
        assert!(failure.message.contains(blocked.to_str().unwrap()), "{failure}");
    }
}
