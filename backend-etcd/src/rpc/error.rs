//! Converts the errors of the client library.

use std::time::Duration;

use lock_core::{Error, ErrorKind};

use super::members::{NoMember, is_due_to};

/// Repeating does not help: an operator must make room.
const NO_SPACE: &str = "etcd's space quota is exceeded, and it takes no writes; compact and \
                        defragment it, then disarm the alarm";

/// Answers that etcd gives before a request enters its log, or to a mere read. Nothing was carried
/// out, and a repeat may succeed. Their status codes vary: it is `Unknown` for the first three.
/// From `rpctypes/error.go`, `v3rpc/util.go` and raft's errors.
const NOT_CARRIED_OUT: [&str; 7] = [
    "etcdserver: too many requests",
    // For example while it transfers its leadership.
    "raft proposal dropped",
    "not a primary lessor",
    "etcdserver: no leader",
    "etcdserver: leader changed",
    "etcdserver: not capable",
    "etcdserver: request timed out, waiting for the applied index took too long",
];

/// Why a call failed, as far as the steps need to know.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The lease of the request does not exist. Nothing was carried out.
    LeaseGone,
    /// Anything else.
    Error(Error),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::LeaseGone => {
                Self::new(ErrorKind::Unavailable, "the lease ended before it could be used")
            }
            Failure::Error(error) => error,
        }
    }
}

/// The numbers of gRPC's status codes: <https://grpc.io/docs/guides/status-codes/>.
pub(crate) fn failure(error: etcd_client::Error) -> Failure {
    use etcd_client::Error as E;
    // The client library does not return the status as the source of its error.
    let first: &(dyn std::error::Error + 'static) = match &error {
        E::GRpcStatus(status) => status,
        error => error,
    };
    if is_due_to::<NoMember>(first) {
        let message = "no member of etcd takes a connection";
        return Failure::Error(
            Error::new(ErrorKind::Unavailable, message).with_source(words(error)),
        );
    }
    let (kind, message) = match &error {
        E::GRpcStatus(status) if NOT_CARRIED_OUT.contains(&status.message()) => {
            (ErrorKind::Unavailable, "etcd cannot carry the request out now")
        }
        E::GRpcStatus(status) => match status.code() as i32 {
            // "Not found". Among our calls, only those that name a lease get this answer.
            5 => return Failure::LeaseGone,
            // A wrong password, or none, is an invalid argument to etcd.
            7 | 16 => (ErrorKind::Auth, "etcd refuses the user, the password or the permission"),
            3 if ["authentication", "user name"]
                .iter()
                .any(|part| status.message().contains(part)) =>
            {
                (ErrorKind::Auth, "etcd refuses the user or the password, or misses them")
            }
            // This also happens for a moment when an operator switches authentication off and on
            // again to invalidate all tokens. A waiter must not lose its entry then.
            9 if status.message().contains("authentication is not enabled") => (
                ErrorKind::Unavailable,
                "etcd has authentication switched off, and a user is given",
            ),
            3 | 9 | 11 | 12 => (ErrorKind::Config, "etcd refuses the request"),
            8 if status.message().contains("space exceeded") => (ErrorKind::Config, NO_SPACE),
            8 => (ErrorKind::Unavailable, "etcd has too much to do"),
            15 => (
                ErrorKind::Config,
                "etcd's members differ in their data, and it takes no writes; repair it, then disarm \
                 the alarm",
            ),
            // The connection broke, or etcd gave up. The request may have been carried out.
            _ => (ErrorKind::OutcomeUnknown, "etcd did not answer the request"),
        },
        E::TransportError(_) | E::IoError(_) => {
            (ErrorKind::OutcomeUnknown, "the connection to etcd broke")
        }
        E::InvalidArgs(_) | E::InvalidUri(_) | E::InvalidMetadataValue(_) => {
            (ErrorKind::Config, "the client of etcd refuses its settings")
        }
        _ => (ErrorKind::Unavailable, "the client of etcd failed"),
    };
    Failure::Error(Error::new(kind, message).with_source(words(error)))
}

/// The error as a readable source. A status shows its causes as code, so only the root cause is
/// added, as text.
fn words(error: etcd_client::Error) -> Box<dyn std::error::Error + Send + Sync> {
    let etcd_client::Error::GRpcStatus(status) = &error else { return error.into() };
    let mut text = status.message().to_owned();
    let causes = std::iter::successors(std::error::Error::source(status), |cause| cause.source());
    if let Some(first) = causes.last().map(ToString::to_string).filter(|it| !text.contains(it)) {
        text = format!("{text}: {first}");
    }
    text.into()
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// For an answer in which a part is missing.
pub(crate) fn incomplete() -> Error {
    Error::new(ErrorKind::Unavailable, "etcd answered less than it was asked")
}

/// For a login without an answer in time. No other request was sent.
pub(crate) fn late_login() -> Error {
    Error::new(ErrorKind::Unavailable, "etcd did not answer the login within the time limit")
}

/// For a call without an answer in time.
pub(crate) fn late(limit: Duration) -> Error {
    let limit = humantime::format_duration(limit);
    Error::new(ErrorKind::Timeout, format!("etcd did not answer within {limit}"))
}

#[cfg(test)]
mod tests {
    use etcd_client::Error as E;
    use tonic::{Code, Status};

    use super::*;

    fn kind(code: Code, message: &str) -> ErrorKind {
        Error::from(failure(E::GRpcStatus(Status::new(code, message)))).kind()
    }

    /// Answers that no test with a real server can cause.
    #[test]
    fn answers_that_exclude_an_execution_are_distinguished_from_unknown_outcomes() {
        for message in NOT_CARRIED_OUT {
            assert_eq!(kind(Code::Unknown, message), ErrorKind::Unavailable, "{message}");
        }
        for message in [
            "etcdserver: request timed out",
            "etcdserver: request timed out, possibly due to previous leader failure",
            "etcdserver: server stopped",
            "raft: stopped",
        ] {
            assert_eq!(kind(Code::Unavailable, message), ErrorKind::OutcomeUnknown, "{message}");
        }
    }
}
