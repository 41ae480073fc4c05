//! Turns PostgreSQL's SQLSTATEs into our errors:
//! <https://www.postgresql.org/docs/current/errcodes-appendix.html>.

use lock_core::{Error, ErrorKind};

use crate::error::{Failure, NO_TABLES, USED_UP, general};

/// A client that waits needs two sessions, any other client needs one, and a busy client more.
const NO_SESSION: &str = "no session of the server in time: it has none left (raise max_connections, run fewer clients, or put a \
     pooler between), or all of the pool are in use";

pub(crate) fn failure(error: sqlx::Error) -> Failure {
    // While the server has no session left, the driver retries, and in the end reports only this.
    if matches!(error, sqlx::Error::PoolTimedOut) {
        return Failure::Error(Error::new(ErrorKind::Unavailable, NO_SESSION).with_source(error));
    }
    let state = error.as_database_error().and_then(|error| error.code());
    let Some(state) = state.map(std::borrow::Cow::into_owned) else {
        return Failure::Error(general(error));
    };
    let (kind, what) = match state.as_str() {
        // Serialization failure and deadlock: rolled back, at any isolation level.
        "40001" | "40P01" => return Failure::Busy(error),
        // The session has its own limit for waits.
        "55P03" => return Failure::Busy(error),
        // Division by zero: a statement that inserts a row has waited too long (`insert`).
        "22012" => return Failure::Busy(error),
        // Another client has made the same tables, which IF NOT EXISTS does not see before they are
        // committed.
        "23505" | "42P07" | "42710" => return Failure::Busy(error),
        "28000" | "28P01" => (ErrorKind::Auth, "the server refuses the user or the password"),
        "42501" => (ErrorKind::Auth, "the role may not use the tables"),
        "3D000" => (ErrorKind::Config, "there is no such database"),
        "42P01" => (ErrorKind::Config, NO_TABLES),
        // The part `refuse_tables`.
        "LH001" => {
            let message = error.as_database_error().map(|error| error.message().to_owned());
            let refused = Error::new(ErrorKind::Config, message.unwrap_or_default());
            return Failure::Error(refused.with_source(error));
        }
        // A token above the largest number.
        "22003" => (ErrorKind::Config, USED_UP),
        "3F000" => (ErrorKind::Config, "there is no such schema"),
        "42703" => (ErrorKind::Config, "the tables are not as this version makes them"),
        "25006" => (ErrorKind::Unavailable, "the server takes no writes: is it a replica?"),
        // The server ended the session; it may have committed before.
        "57P01" | "57P02" | "57P05" | "25P03" | "25P04" => {
            (ErrorKind::OutcomeUnknown, "the server ended the session")
        }
        "57P03" => (ErrorKind::Unavailable, "the server is starting or stopping"),
        // An operator or a time limit of the role ended it, or the server cannot read a file.
        state if state.starts_with("57") || state.starts_with("58") => {
            (ErrorKind::Unavailable, "the server could not carry the statement out now")
        }
        state if state.starts_with("08") => (ErrorKind::OutcomeUnknown, "the connection broke"),
        "53300" => (ErrorKind::Unavailable, NO_SESSION),
        state if state.starts_with("53") => {
            (ErrorKind::Unavailable, "the server has run out of something")
        }
        _ => return Failure::Error(general(error)),
    };
    Failure::Error(Error::new(kind, what).with_source(error))
}
