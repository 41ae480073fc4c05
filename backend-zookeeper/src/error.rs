//! The errors of the client library as ours.

use std::time::Duration;

use lock_core::{Error, ErrorKind};
use zookeeper_client::{Error as Refusal, MultiWriteError};

/// Why a write was not carried out, or whether that is unknown.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server has refused the step with this index.
    Refused(usize, Refusal),
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(_, refusal) => final_error(refusal),
            Failure::Error(error) => error,
        }
    }
}

impl Failure {
    /// Whether a node was missing.
    pub(crate) fn is_no_node(&self) -> bool {
        matches!(self, Self::Refused(_, Refusal::NoNode))
    }

    /// Whether others have changed, made or deleted a node meanwhile.
    pub(crate) fn is_changed(&self) -> bool {
        use Refusal::{BadVersion, NoNode, NodeExists};
        matches!(self, Self::Refused(_, BadVersion | NodeExists | NoNode))
    }
}

/// What the server says of a node or of a request. The rest is about the connection.
fn is_answer(error: &Refusal) -> bool {
    matches!(
        error,
        Refusal::NoNode
            | Refusal::NoAuth
            | Refusal::BadVersion
            | Refusal::NoChildrenForEphemerals
            | Refusal::NodeExists
            | Refusal::NotEmpty
            | Refusal::InvalidAcl
            | Refusal::AuthFailed
            | Refusal::NotReadOnly
            | Refusal::QuotaExceeded
            | Refusal::Throttled
            | Refusal::MarshallingError
            | Refusal::Unimplemented
            | Refusal::BadArguments(_)
    )
}

fn final_error(error: Refusal) -> Error {
    let (kind, message) = match &error {
        Refusal::NoAuth => (ErrorKind::Auth, "ZooKeeper refuses the access to a node"),
        Refusal::AuthFailed => (ErrorKind::Auth, "ZooKeeper refuses the credentials"),
        Refusal::QuotaExceeded => (ErrorKind::Config, "a quota of ZooKeeper is used up"),
        Refusal::Throttled => (ErrorKind::Unavailable, "ZooKeeper has too many requests"),
        Refusal::NotReadOnly => (ErrorKind::Unavailable, "the server has lost the others"),
        Refusal::NoNode | Refusal::BadVersion | Refusal::NodeExists | Refusal::NotEmpty => {
            (ErrorKind::Unavailable, "others changed a node at the same time")
        }
        Refusal::Unimplemented => {
            (ErrorKind::Config, "the server is older than ZooKeeper 3.6; use a later version")
        }
        _ => (ErrorKind::Config, "ZooKeeper refuses the request"),
    };
    Error::new(kind, message).with_source(error)
}

/// The error of a read, which changes nothing.
pub(crate) fn of_read(error: Refusal) -> Error {
    match is_answer(&error) {
        true => final_error(error),
        false => Error::new(ErrorKind::Unavailable, "ZooKeeper does not answer").with_source(error),
    }
}

/// The error of a question: its writes have no outcome that its caller asks for.
pub(crate) fn of_question(error: Error) -> Error {
    match error.kind() {
        ErrorKind::OutcomeUnknown => {
            Error::new(ErrorKind::Unavailable, "ZooKeeper does not answer").with_source(error)
        }
        _ => error,
    }
}

/// The error of a write.
pub(crate) fn of_write(error: Refusal) -> Failure {
    match is_answer(&error) {
        true => Failure::Refused(0, error),
        false => {
            let message = "the connection ended before ZooKeeper had answered";
            Failure::Error(Error::new(ErrorKind::OutcomeUnknown, message).with_source(error))
        }
    }
}

/// The error of several writes in one step.
pub(crate) fn of_writes(error: MultiWriteError) -> Failure {
    match error {
        MultiWriteError::OperationFailed { index, source } if is_answer(&source) => {
            Failure::Refused(index, source)
        }
        MultiWriteError::OperationFailed { source, .. }
        | MultiWriteError::RequestFailed { source } => of_write(source),
    }
}

/// The error of a connection that is to be made.
pub(crate) fn of_connect(error: Refusal) -> Error {
    match error {
        Refusal::AuthFailed | Refusal::NoAuth | Refusal::BadArguments(_) => final_error(error),
        error => {
            let message = "no server of ZooKeeper can be reached, or none has a majority";
            Error::new(ErrorKind::Unavailable, message).with_source(error)
        }
    }
}

/// A call took longer than its time limit.
pub(crate) fn late(kind: ErrorKind, limit: Duration) -> Error {
    let message = format!("no answer within {}", humantime::format_duration(limit));
    Error::new(kind, message)
}
