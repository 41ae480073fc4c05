//! The client's errors as ours.

use std::time::Duration;

use lock_core::{Error, ErrorKind};

use super::members::NoMember;

/// An operator has to make room: trying again does not help.
const NO_SPACE: &str = "etcd's space quota is exceeded, and it takes no writes; compact and \
                        defragment it, then disarm the alarm";

/// etcd's answers before a request enters its log, or to a mere read, by any status code: `Unknown` for the first three.
/// Nothing was carried out, and a repeat may succeed. From `rpctypes/error.go`,
/// `v3rpc/util.go` and raft's errors.
const NOT_CARRIED_OUT: [&str; 7] = [
    "etcdserver: too many requests",
    // Such as while it hands its leadership over.
    "raft proposal dropped",
    "not a primary lessor",
    "etcdserver: no leader",
    "etcdserver: leader changed",
    "etcdserver: not capable",
    "etcdserver: request timed out, waiting for the applied index took too long",
];

/// Why a call failed, as far as the steps tell failures apart.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The lease that was named does not exist: nothing was carried out.
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
    if is_due_to::<NoMember>(&error) {
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
            // Of our calls only those that name a lease can miss something.
            5 => return Failure::LeaseGone,
            // A wrong password, or none, is an invalid argument to etcd.
            7 | 16 => (ErrorKind::Auth, "etcd refuses the user, the password or the permission"),
            3 if ["authentication", "user name"]
                .iter()
                .any(|part| status.message().contains(part)) =>
            {
                (ErrorKind::Auth, "etcd refuses the user or the password, or misses them")
            }
            // So for a moment, too, where an operator switches it off and on again to void all tokens: a waiter
            // must not lose its entry then.
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
            // The connection broke or etcd gave up; the request may have been carried out.
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

/// The error as a cause for people: a status shows its own causes as code, here only the first of them in words.
fn words(error: etcd_client::Error) -> Box<dyn std::error::Error + Send + Sync> {
    let etcd_client::Error::GRpcStatus(status) = &error else { return error.into() };
    let mut text = status.message().to_owned();
    let causes = std::iter::successors(std::error::Error::source(status), |cause| cause.source());
    if let Some(first) = causes.last().map(ToString::to_string).filter(|it| !text.contains(it)) {
        text = format!("{text}: {first}");
    }
    text.into()
}

/// Whether an error of this type caused it.
fn is_due_to<E: std::error::Error + 'static>(error: &etcd_client::Error) -> bool {
    // The driver does not name a status as the source of its error.
    let mut source: Option<&(dyn std::error::Error + 'static)> = match error {
        etcd_client::Error::GRpcStatus(status) => Some(status),
        error => Some(error),
    };
    while let Some(error) = source {
        if error.is::<E>() {
            return true;
        }
        source = error.source();
    }
    false
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// An answer that lacks a part.
pub(crate) fn incomplete() -> Error {
    Error::new(ErrorKind::Unavailable, "etcd answered less than it was asked")
}

/// No answer to a login in time: nothing else was asked for.
pub(crate) fn late_login() -> Error {
    Error::new(ErrorKind::Unavailable, "etcd did not answer the login within the time limit")
}

/// No answer in time.
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

    /// Those that no test of a real server brings about.
    #[test]
    fn what_was_not_carried_out_is_told_from_what_may_have_been() {
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
