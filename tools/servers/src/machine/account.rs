//! Another account for a server: PostgreSQL refuses to run as root.

use std::{
    ffi::OsStr,
    os::unix::{fs::chown, process::CommandExt as _},
    path::Path,
    process::Command,
};

use crate::error::{Doing as _, KitError, Result};

/// A user of this machine.
#[derive(Clone, Debug)]
pub struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// The account for a server that refuses to be root: `None` when the tests do not run as root,
    /// since then their own will do; else the first of `names` that exists.
    ///
    /// # Errors
    ///
    /// [`KitError::NoAccount`] where none exists.
    pub fn instead_of_root(server: &str, names: &[&str]) -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let passwd = std::fs::read_to_string("/etc/passwd").doing(|| "read /etc/passwd".into())?;
        let none = || KitError::NoAccount {
            server: server.to_owned(),
            tried: names.iter().map(|&name| name.to_owned()).collect(),
        };
        names.iter().find_map(|name| Self::parse(&passwd, name)).map(Some).ok_or_else(none)
    }

    fn parse(passwd: &str, name: &str) -> Option<Self> {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some(Self { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    }

    /// Makes a file or folder the account's own.
    pub(crate) fn give(&self, path: &Path) -> Result<()> {
        chown(path, Some(self.uid), Some(self.gid))
            .doing(|| format!("give {} to user {}", path.display(), self.uid))
    }

    /// A command to run as `account`, or as ourselves.
    pub(crate) fn command(account: Option<&Self>, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        if let Some(account) = account {
            command.uid(account.uid).gid(account.gid);
        }
        command
    }

    /// How `setpriv` becomes this account.
    pub(crate) fn setpriv_args(&self) -> [String; 3] {
        [format!("--reuid={}", self.uid), format!("--regid={}", self.gid), "--clear-groups".into()]
    }
}
