//! The default store: a SQLite file per user.
//!
//! The path depends only on the user and two environment variables. The directory is created later,
//! when the store is opened.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::exit::{Failure, cause};
use crate::sys;

const FOLDER: &str = "leasehold";
const FILE: &str = "locks.db";
const ADVICE: &str = "correct it, or name a store with --store or LEASEHOLD_STORE";

/// Where programs of a system keep the data of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Convention {
    /// Linux: `$XDG_STATE_HOME`, else `~/.local/state`; for root `/var/lib`.
    Xdg,
    /// macOS: `~/Library/Application Support`; for root `/Library/Application Support`.
    Library,
    /// Windows: `%LOCALAPPDATA%`.
    LocalAppData,
}

/// The part of the process's environment that determines the default store.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Whether the effective user is root.
    pub root: bool,
    /// `XDG_STATE_HOME`.
    pub state_home: Option<OsString>,
    /// `HOME`.
    pub home: Option<OsString>,
    /// `LOCALAPPDATA`.
    pub local_data: Option<OsString>,
}

impl Surroundings {
    /// Those of this process.
    #[must_use]
    pub fn here() -> Self {
        Self {
            root: sys::is_root(),
            state_home: std::env::var_os("XDG_STATE_HOME"),
            home: std::env::var_os("HOME"),
            local_data: std::env::var_os("LOCALAPPDATA"),
        }
    }

    /// The path of the default store's file on this system. It reads and creates nothing on disk.
    ///
    /// # Errors
    /// As for [`store_by`](Self::store_by).
    pub fn default_store(&self) -> Result<PathBuf, Failure> {
        self.store_by(sys::CONVENTION)
    }

    /// The path of the default store's file by a system's convention.
    ///
    /// For root it does not depend on the environment, such as `/var/lib/leasehold/locks.db`:
    /// root's jobs run from cron, from services and through `sudo -E`, with different variables,
    /// and all of them must exclude each other.
    ///
    /// # Errors
    ///
    /// For a relative path in a variable, although the XDG specification says to ignore it: two
    /// processes with different paths would both get the lock. Also if a variable is needed and not
    /// set.
    pub fn store_by(&self, convention: Convention) -> Result<PathBuf, Failure> {
        let home = || absolute("HOME", self.home.as_ref());
        let (folder, needed) = match convention {
            Convention::Xdg if self.root => (Some("/var/lib".into()), ""),
            Convention::Xdg => {
                let folder = match absolute("XDG_STATE_HOME", self.state_home.as_ref())? {
                    Some(state) => Some(state.to_owned()),
                    None => home()?.map(|home| home.join(".local/state")),
                };
                (folder, "neither XDG_STATE_HOME nor HOME is set")
            }
            Convention::Library if self.root => (Some("/Library/Application Support".into()), ""),
            Convention::Library => {
                let folder = home()?.map(|home| home.join("Library/Application Support"));
                (folder, "HOME is not set")
            }
            Convention::LocalAppData => {
                let folder = absolute("LOCALAPPDATA", self.local_data.as_ref())?;
                (folder.map(Path::to_owned), "LOCALAPPDATA is not set")
            }
        };
        let folder: PathBuf = folder.ok_or_else(|| {
            Failure::usage(format_args!(
                "cannot choose a default store: {needed}; name a store with --store or LEASEHOLD_STORE"
            ))
        })?;
        Ok(folder.join(FOLDER).join(FILE))
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
    match sys::make_private(directory) {
        Ok(None) => Ok(()),
        Ok(Some(wrong)) => Err(Failure::unavailable(format_args!(
            "the directory {directory:?} of the default store {wrong}; \
             or name another store with --store or LEASEHOLD_STORE"
        ))),
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
            local_data: None,
        }
    }

    fn path(of: &Surroundings) -> String {
        of.store_by(Convention::Xdg).unwrap().into_os_string().into_string().unwrap()
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
    fn each_system_has_its_folder() {
        let user = Surroundings { local_data: Some("/l".into()), ..user(Some("/s"), Some("/h")) };
        let root = Surroundings { root: true, ..user.clone() };
        for (convention, of_user, of_root) in [
            (Convention::Xdg, "/s/leasehold", "/var/lib/leasehold"),
            (
                Convention::Library,
                "/h/Library/Application Support/leasehold",
                "/Library/Application Support/leasehold",
            ),
            (Convention::LocalAppData, "/l/leasehold", "/l/leasehold"),
        ] {
            for (who, folder) in [(&user, of_user), (&root, of_root)] {
                assert_eq!(who.store_by(convention).unwrap(), Path::new(folder).join("locks.db"));
            }
            let failure = Surroundings::default().store_by(convention).unwrap_err();
            assert!(failure.message.contains("not set") || convention == Convention::Xdg);
            assert_eq!(failure.code, USAGE);
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
            let failure = surroundings.store_by(Convention::Xdg).unwrap_err();
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
    fn a_directory_that_others_may_use_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let store = temporary.path().join("leasehold/locks.db");
        make_directory(&store).unwrap();
        let directory = store.parent().unwrap();
        for mode in [0o755, 0o730, 0o701] {
            std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode)).unwrap();
            let failure = make_directory(&store).unwrap_err();
            assert_eq!(failure.code, UNAVAILABLE);
            for part in [directory.to_str().unwrap(), &format!("{mode:04o}"), "0700"] {
                assert!(failure.message.contains(part), "{part} in {failure}");
            }
        }
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
