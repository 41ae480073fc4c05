//! Converts errors of the redis crate.

use lock_core::{Error, ErrorKind};
use redis::{ErrorKind as Driver, RedisError, ServerErrorKind as Server};

pub(crate) const PART_OF_A_CLUSTER: &str =
    "the server is part of a cluster; use redis+cluster:// with some of its nodes";

pub(crate) const NO_PART_OF_A_CLUSTER: &str =
    "the server in a node's place is no part of a cluster";

const NO_RESP3: &str = "the server, or a proxy before it, speaks no RESP3; must be Redis 7.0, Valkey 7.2 or later, at its own address";

pub(crate) const CLOSED: &str = "the connection was closed";

pub(crate) const NO_HOST_NAME: &str = "a node of the cluster should announce a host name and has none; set its cluster-announce-hostname, or \
     cluster-preferred-endpoint-type ip";

/// An error of a command that may have been carried out.
pub(crate) fn of_command(error: &RedisError) -> Error {
    let unknown = (
        ErrorKind::OutcomeUnknown,
        "the server refused this, with an error that is not known here",
    );
    let (kind, message) = meaning(error).unwrap_or(unknown);
    Error::new(kind, message).with_source(error.clone())
}

/// Whether an error of the server is one that is not known here. It may pass, and it may stay: see
/// [`UnknownErrors`](lock_core::UnknownErrors).
pub(crate) fn is_unknown_refusal(error: &RedisError) -> bool {
    meaning(error).is_none()
}

/// The kind of an error, and what it means. `None` for an error of the server that is not known
/// here.
fn meaning(error: &RedisError) -> Option<(ErrorKind, &'static str)> {
    let code = error.code().unwrap_or_default();
    Some(match (error.kind(), code) {
        // These pass: an operator, the server or its cluster ends them while the client waits.
        (_, "OOM") => (ErrorKind::Unavailable, "the server has reached its maxmemory"),
        (_, "MISCONF") => (ErrorKind::Unavailable, "the server cannot persist and takes no writes"),
        (_, "NOREPLICAS") => (ErrorKind::Unavailable, "the server has too few good replicas"),
        (_, "UNBLOCKED") => {
            (ErrorKind::Unavailable, "the server became a replica while it waited for its replicas")
        }
        (_, "BUSY") => {
            (ErrorKind::Unavailable, "the server is busy with a script of another client")
        }
        (Driver::Server(Server::ReadOnly), _) => {
            (ErrorKind::Unavailable, "the server is a read-only replica")
        }
        (Driver::Server(Server::BusyLoading), _) => {
            (ErrorKind::Unavailable, "the server is loading its data")
        }
        (Driver::Server(Server::MasterDown | Server::ClusterDown | Server::TryAgain), _) => {
            (ErrorKind::Unavailable, "the server cannot answer now")
        }
        (Driver::Server(_), _) if says(error, "max number of clients") => (
            ErrorKind::Unavailable,
            "the server has as many clients as its maxclients allows; raise that, or close other connections",
        ),
        (Driver::Server(_), _) if says(error, "Script killed by user") => {
            (ErrorKind::OutcomeUnknown, "somebody ended the script with SCRIPT KILL")
        }
        (Driver::Server(_), _) if is_of_emptied_key(error) => {
            (ErrorKind::Unavailable, "the slot is moving between nodes")
        }
        // These stay until somebody changes a setting, a permission or a key.
        (_, "NOAUTH") => (
            ErrorKind::Auth,
            "the server demands a password, and the client gives none; name it, as in \
             redis://:PASSWORD@HOST or redis://USER:PASSWORD@HOST",
        ),
        (_, "WRONGPASS") | (Driver::AuthenticationFailed, _) => {
            (ErrorKind::Auth, "the server refuses the user or the password")
        }
        (Driver::Server(_), _) if says(error, "without any password configured") => {
            (ErrorKind::Auth, "the server has no password for this user, and the client gives one")
        }
        (Driver::Server(Server::NoPerm), _) => {
            (ErrorKind::Auth, "the user lacks a permission; see the crate's list for ACLs")
        }
        // If the ACL refuses a command inside a script, the script reports an error of its own.
        (Driver::Server(_), _) if says_no_permission(error) => {
            (ErrorKind::Auth, "the user lacks a permission; see the crate's list for ACLs")
        }
        (Driver::Server(Server::Moved | Server::Ask | Server::CrossSlot), _) => {
            (ErrorKind::Config, PART_OF_A_CLUSTER)
        }
        (_, "DENIED") => (
            ErrorKind::Config,
            "the server is in protected mode; set a password, or protected-mode no",
        ),
        (_, "WRONGTYPE") => {
            (ErrorKind::Config, "a key of this store has another type than this library writes")
        }
        (Driver::Server(_), _) if says(error, "DB index is out of range") => (
            ErrorKind::Config,
            "the server has no database of this number; must be below its `databases`",
        ),
        (Driver::Server(_), _) if says(error, "unknown command 'SENTINEL'") => {
            (ErrorKind::Config, "the server is no sentinel; use redis:// for one server")
        }
        (Driver::Server(_), _) if LACKING.iter().any(|text| says(error, text)) => {
            (ErrorKind::Config, "the server lacks a command that this library needs")
        }
        (_, "NOPROTO") => (ErrorKind::Config, NO_RESP3),
        (Driver::Server(_) | Driver::Extension, _) => return None,
        (Driver::InvalidClientConfig, _) => {
            (ErrorKind::Config, "the settings do not allow this connection")
        }
        (Driver::Io, _) if error.is_timeout() => {
            (ErrorKind::OutcomeUnknown, "the server did not answer in time")
        }
        (Driver::Io, _) => (ErrorKind::OutcomeUnknown, "the connection broke before the answer"),
        _ => (ErrorKind::OutcomeUnknown, "the answer was not understood"),
    })
}

/// The texts with which a server says that it has no such command, or has it with other arguments,
/// or not in scripts.
const LACKING: [&str; 5] = [
    "unknown command",
    "unknown subcommand",
    "nknown Redis command called from script",
    "not allowed from script",
    "wrong number of arguments",
];

/// Whether a script may have failed because of what somebody else wrote to one of its keys: the key
/// has another type, or a line of the script could not handle the value.
pub(crate) fn may_be_of_contents(error: &RedisError) -> bool {
    error.code() == Some("WRONGTYPE") || says(error, "user_script") && is_unknown_refusal(error)
}

/// The same for one of our errors. A client that is still connecting has sent no request, so
/// nothing can have been done.
pub(crate) fn before_asking(error: Error) -> Error {
    if !error.is_ambiguous() {
        return error;
    }
    Error::new(ErrorKind::Unavailable, "no connection to the server").with_source(error)
}

/// Whether the error means that a slot is moving, with some of the keys here and some on the other
/// node.
pub(crate) fn is_divided(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    source.is_some_and(|source: &RedisError| source.kind() == Driver::Server(Server::TryAgain))
}

/// Whether the server refused a script one of its keys. The script names all its keys, and all were
/// there when it began. So the script has emptied this key, and the slot is moving.
pub(crate) fn is_of_emptied_key(error: &RedisError) -> bool {
    says(error, "attempted to access a non local key")
}

fn says_no_permission(error: &RedisError) -> bool {
    // The first text is Redis 7.0's, the second that of later versions and of Valkey.
    ["The user executing the script", "ACL failure in script"].iter().any(|text| says(error, text))
}

fn says(error: &RedisError, text: &str) -> bool {
    error.detail().is_some_and(|detail| detail.contains(text))
}

/// An error while connecting: no request was sent yet.
pub(crate) fn of_connecting(error: &RedisError) -> Error {
    let of_hello = says(error, "HELLO") || says(error, "hello");
    let unknown = says(error, "unknown command") || says(error, "unsupported command");
    if error.kind() == Driver::RESP3NotSupported || of_hello && unknown {
        return Error::new(ErrorKind::Config, NO_RESP3).with_source(error.clone());
    }
    let converted = of_command(error);
    match (converted.kind(), error.kind()) {
        (ErrorKind::OutcomeUnknown, _) => {
            Error::new(ErrorKind::Unavailable, "no connection to the server")
                .with_source(error.clone())
        }
        _ => converted,
    }
}

#[cfg(test)]
mod tests {
    use redis::{RedisError, Value};

    use super::*;

    fn refusal(text: &str) -> RedisError {
        let answer = redis::parse_redis_value(format!("-{text}\r\n").as_bytes());
        answer.and_then(Value::extract_error).unwrap_err()
    }

    #[test]
    fn what_passes_is_retried_and_what_stays_is_not() {
        for (text, passes) in [
            ("ERR max number of clients reached", true),
            ("ERR max number of clients + cluster connections reached", true),
            ("LOADING Redis is loading the dataset in memory", true),
            ("BUSY Redis is busy running a script.", true),
            ("MASTERDOWN Link with MASTER is down", true),
            ("TRYAGAIN Multiple keys request during rehashing of slot", true),
            ("CLUSTERDOWN The cluster is down", true),
            ("READONLY You can't write against a read only replica.", true),
            ("OOM command not allowed when used memory > 'maxmemory'.", true),
            ("MISCONF Redis is configured to save RDB snapshots", true),
            ("NOREPLICAS Not enough good replicas to write.", true),
            ("UNBLOCKED force unblock from blocking operation", true),
            ("ERR Script killed by user with SCRIPT KILL.", true),
            ("NOAUTH Authentication required.", false),
            ("WRONGPASS invalid username-password pair", false),
            ("ERR AUTH <password> called without any password configured", false),
            ("NOPERM this user has no permissions", false),
            ("DENIED Redis is running in protected mode", false),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", false),
            ("ERR unknown command 'EVALSHA'", false),
            ("ERR This Redis command is not allowed from script", false),
            ("NOPROTO unsupported protocol version", false),
        ] {
            let refusal = refusal(text);
            assert!(!is_unknown_refusal(&refusal), "{text}");
            let error = of_command(&refusal);
            assert_eq!(error.is_retryable(), passes, "{text}: {error}");
            let gives_none = error.to_string().contains("demands a password");
            assert_eq!(gives_none, text.starts_with("NOAUTH"), "{text}: {error}");
        }
        for text in ["ERR no upstream", "upstream failure"] {
            let refusal = refusal(text);
            assert!(is_unknown_refusal(&refusal) && of_command(&refusal).is_retryable(), "{text}");
        }
    }
}
