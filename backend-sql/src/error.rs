//! Turns the driver's errors into ours.

use std::{error::Error as StdError, fmt};

use lock_core::{Error, ErrorKind, FencingToken};
use sqlx::{ColumnIndex, Decode, Type};

/// An error of the database that no rule covers, such as that of a proxy or a trigger, as the
/// source of one of ours.
#[derive(Debug)]
pub(crate) struct UnknownRefusal(pub(crate) sqlx::Error);

impl fmt::Display for UnknownRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for UnknownRefusal {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// What the flow needs to know of a failed statement.
pub(crate) enum Failure {
    /// The statement was not carried out because another client was in its way. A repeat at once
    /// may succeed.
    Busy(sqlx::Error),
    /// Anything else.
    Error(Error),
}

impl Failure {
    /// For a statement in the user's transaction: only the user can repeat that.
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

/// For users who have not run `init` yet.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) const NO_TABLES: &str = "the tables are not there; `leasehold --store URL init` makes them, or the SQL that \
                                    `leasehold schema` prints (for a fence its `create`)";

/// No larger token can be granted. The remedy differs between the databases.
pub(crate) const USED_UP: &str = "the fencing tokens are used up, since a token is at the limit; `leasehold release --force` frees \
                                  one name, and `leasehold check` tells what helps where it is all of them";

/// The token in a column.
///
/// # Errors
/// `Config` for a number that is no token.
pub fn token_of(stored: i64) -> Result<FencingToken, Error> {
    let token = u64::try_from(stored).ok().and_then(FencingToken::new);
    token.ok_or_else(|| Error::new(ErrorKind::Config, USED_UP))
}

/// A column of an answer, by its name or position.
///
/// # Errors
/// As [`general`].
pub(crate) fn column<'r, R, T>(row: &'r R, at: impl ColumnIndex<R>) -> Result<T, Error>
where
    R: sqlx::Row,
    T: Decode<'r, R::Database> + Type<R::Database>,
{
    row.try_get(at).map_err(general)
}

/// What the driver says if the URL demands TLS and the server offers none.
const SERVER_WITHOUT_TLS: &str = "server does not support TLS";

/// The error for what no rule of a database covers. The message contains no values. The driver puts
/// a password into its own message only when it parses a URL, and we parse URLs ourselves.
pub fn general(error: sqlx::Error) -> Error {
    use sqlx::Error as E;
    let (kind, message) = match &error {
        // This is how a TLS handshake fails, for example when the certificate is not trusted.
        E::Io(io) if io.kind() == std::io::ErrorKind::InvalidData => {
            (ErrorKind::Unavailable, "no TLS connection to the database")
        }
        E::Io(_) | E::WorkerCrashed => {
            (ErrorKind::OutcomeUnknown, "the connection to the database broke")
        }
        // For example a message for another client of the same pooler. The statement may still have
        // been carried out.
        E::Protocol(_) => (ErrorKind::OutcomeUnknown, "the database sent an unexpected answer"),
        // The pool does not distinguish a server that refuses from a pool that is in use.
        E::PoolTimedOut => {
            let message = "no connection in time: the server accepts none, or all connections of the pool are in use";
            (ErrorKind::Unavailable, message)
        }
        E::PoolClosed => (ErrorKind::Config, "the pool of connections is closed"),
        // Neither is mended by another try.
        E::Tls(cause) if cause.to_string() == SERVER_WITHOUT_TLS => {
            (ErrorKind::Config, "the server has no TLS, which the URL demands")
        }
        E::Tls(_) => (ErrorKind::Config, "TLS cannot be used as the URL says"),
        E::Database(_) => {
            let refused = Error::new(ErrorKind::Unavailable, "the database refused the statement");
            return refused.with_source(UnknownRefusal(error));
        }
        _ => {
            (ErrorKind::Config, "the database sent an answer that this version does not understand")
        }
    };
    Error::new(kind, message).with_source(error)
}
