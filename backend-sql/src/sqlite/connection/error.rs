//! Turns SQLite's result codes into our errors.

use std::path::Path;

use lock_core::{Error, ErrorKind};

use crate::error::{Failure, USED_UP, UnknownRefusal, general};

/// The meaning of a code, for somebody who must repair it. See <https://sqlite.org/rescode.html>.
pub(crate) fn failure(error: sqlx::Error, path: &Path) -> Failure {
    let Some(code) = error.as_database_error().and_then(|error| error.code()) else {
        return Failure::Error(general(error));
    };
    // A token above the largest integer does not have the column's type.
    if code == "3091" {
        return Failure::Error(Error::new(ErrorKind::Config, USED_UP).with_source(error));
    }
    // The low byte is the primary code. 5 is BUSY in all its kinds, 6 LOCKED, and 15 PROTOCOL,
    // which is a race for the write-ahead log's locks.
    let (kind, what) = match code.parse::<i32>().unwrap_or(0) & 0xff {
        5 | 6 | 15 => return Failure::Busy(error),
        // No such column or table.
        1 => (ErrorKind::Config, "has tables that are not as this version makes them"),
        3 => (ErrorKind::Auth, "permission denied"),
        8 => (ErrorKind::Config, "is read-only; it must be a file that may be written"),
        10 => (ErrorKind::Unavailable, "cannot be read or written"),
        11 => (ErrorKind::Config, "is damaged"),
        13 => (ErrorKind::Unavailable, "is on a disk that is full"),
        14 => (
            ErrorKind::Config,
            "cannot be opened; the file and its folder must be readable and writable",
        ),
        26 => (ErrorKind::Config, "is no SQLite database"),
        _ => {
            let refused =
                Error::new(ErrorKind::Unavailable, format!("{path:?} refused a statement"));
            return Failure::Error(refused.with_source(UnknownRefusal(error)));
        }
    };
    let message = format!("{path:?} {what}");
    Failure::Error(Error::new(kind, message).with_source(error))
}
