//! The driver's errors as ours.

use lock_core::{Error, ErrorKind};

/// What the flow needs to know of a failed statement.
pub(crate) enum Failure {
    /// It was not carried out because another had the database; it is worth trying again at once.
    Busy(sqlx::Error),
    /// Anything else.
    Error(Error),
}

impl Failure {
    /// For a statement in a transaction of the user's, who alone can repeat it.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn in_a_transaction(self) -> Error {
        match self {
            Self::Busy(source) => {
                let message =
                    "another transaction was in the way; roll this one back, and begin it anew";
                Error::new(ErrorKind::Unavailable, message).with_source(source)
            }
            Self::Error(error) => error,
        }
    }
}

/// That no larger token can be granted. What helps is not the same in each of these databases.
pub(crate) const USED_UP: &str = "the fencing tokens are used up, since a token is at the limit; `leasehold release --force` frees \
                                  one name, and `leasehold check` tells what helps where it is all of them";

/// An error that no database-specific rule knows better. Its message names no values, since the
/// driver may put a password into its own only when parsing a URL, which we do ourselves.
pub fn general(error: sqlx::Error) -> Error {
    use sqlx::Error as E;
    let (kind, message) = match &error {
        // So a handshake fails, as for a certificate that is not trusted.
        E::Io(io) if io.kind() == std::io::ErrorKind::InvalidData => {
            (ErrorKind::Unavailable, "no TLS connection to the database")
        }
        E::Io(_) | E::WorkerCrashed => {
            (ErrorKind::OutcomeUnknown, "the connection to the database broke")
        }
        // Such as a message for another client of the same pooler: the statement may have been carried out all the same.
        E::Protocol(_) => {
            (ErrorKind::OutcomeUnknown, "the database answered what was not asked for")
        }
        // The pool does not tell a server that refuses from one that is busy with others.
        E::PoolTimedOut => {
            let message =
                "no connection in time: the server takes none, or all of the pool are in use";
            (ErrorKind::Unavailable, message)
        }
        E::PoolClosed => (ErrorKind::Config, "the pool of connections is closed"),
        E::Tls(_) => (ErrorKind::Unavailable, "no TLS connection to the database"),
        E::Database(_) => (ErrorKind::Unavailable, "the database refused the statement"),
        _ => (ErrorKind::Config, "the database answered what this version does not understand"),
    };
    Error::new(kind, message).with_source(error)
}
