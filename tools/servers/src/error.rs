//! Errors of the kit's servers, in words that a reader of a test log can act on.

use std::{process::ExitStatus, time::Duration};

/// Result of the kit's operations.
pub type Result<T, E = KitError> = std::result::Result<T, E>;

/// An error of the server kit. It is never a reason to skip a test: a test that passes without its
/// server proves nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KitError {
    /// A program is not installed.
    #[error(
        "`{program}` not found: run scripts/install-test-servers, or `apt-get install {package}`"
    )]
    MissingProgram {
        /// The program looked for.
        program: String,
        /// The Debian package that brings it.
        package: &'static str,
    },
    /// The operating system refused something.
    #[error("cannot {action}")]
    Io {
        /// The attempted action, as an infinitive.
        action: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A server ended instead of getting ready.
    #[error("{server} ended with {status} before it was ready; the end of its log:\n{log}")]
    Exited {
        /// Name of the server.
        server: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it wrote.
        log: String,
    },
    /// Something was awaited for longer than its deadline.
    #[error("waited {waited:?} for {what}, which did not happen; the end of the log:\n{log}")]
    TimedOut {
        /// The awaited event.
        what: String,
        /// For how long.
        waited: Duration,
        /// The last lines of the server's log, or why there are none.
        log: String,
    },
    /// A command such as `initdb` or `etcdctl` failed.
    #[error("{command} failed with {status}:\n{output}")]
    Command {
        /// The command, without secrets.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// Its output.
        output: String,
    },
    /// The server is not running now, so it has no process to act upon.
    #[error("{server} is not running")]
    NotRunning {
        /// Name of the server.
        server: String,
    },
    /// No port could be found.
    #[error("no free port between {first} and {last} on 127.0.0.1")]
    NoPort {
        /// First port tried.
        first: u16,
        /// Last port tried.
        last: u16,
    },
    /// A server must not run as root, and there is no account to run it as.
    #[error("{server} refuses to run as root, and none of the accounts {tried:?} exists")]
    NoAccount {
        /// Name of the server.
        server: String,
        /// The accounts looked for.
        tried: Vec<String>,
    },
    /// A server or tool answered something unexpected, or was asked something impossible.
    #[error("{0}")]
    Unexpected(String),
    /// Certificates could not be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
}

impl KitError {
    /// Whether another process took the server's port between our check and its bind.
    pub(crate) fn is_port_taken(&self) -> bool {
        matches!(self, Self::Exited { log, .. } if log.to_lowercase().contains("address already in use")
            || log.contains("Can't start server: Bind on TCP/IP port"))
            || matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse)
    }
}

/// Gives an I/O error the action that failed.
pub(crate) trait Doing<T> {
    /// Names the action, as an infinitive: "read /proc/1/stat".
    fn doing(self, action: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<std::io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, action: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|e| KitError::Io { action: action(), source: e.into() })
    }
}
