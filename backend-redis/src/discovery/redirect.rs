//! The server that a refused command names.

use redis::{ErrorKind as Driver, RedisError, ServerErrorKind as Server};

use crate::{
    connection::error::is_of_emptied_key,
    settings::{Address, topology::UNNAMED},
};

/// None of these commands was carried out, but for a script that is to be sent again: it may have removed places
/// that are dead, and has freed nothing that it does not answer for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// The slot is served there, from now on.
    Moved(Address),
    /// The slot is on the move, and these keys have gone there already.
    Ask(Address),
    /// The slot is on the move, with some of the keys here and some there; or a script has emptied a key of it,
    /// and is refused that key from then on as one that has gone ahead.
    Again,
    /// To a node that is to announce a host name, and has none.
    Unnamed,
    /// The server has become a replica.
    Demoted,
    /// The server is not in touch with its cluster, and another may have taken its place.
    Alone,
}

impl Redirect {
    /// What an error of the server at `from` says.
    pub(crate) fn of(error: &RedisError, from: &Address) -> Option<Self> {
        let there = |to: fn(Address) -> Self| {
            let (address, _) = error.redirect_node()?;
            let (host, port) = address.rsplit_once(':')?;
            let host = host.trim_start_matches('[').trim_end_matches(']');
            if host == UNNAMED {
                return Some(Self::Unnamed);
            }
            from.beside(host, port.parse().ok()?).map(to)
        };
        match error.kind() {
            Driver::Server(Server::Moved) => there(Self::Moved),
            Driver::Server(Server::Ask) => there(Self::Ask),
            Driver::Server(Server::TryAgain) => Some(Self::Again),
            _ if is_of_emptied_key(error) => Some(Self::Again),
            Driver::Server(Server::ReadOnly) => Some(Self::Demoted),
            Driver::Server(Server::ClusterDown) => Some(Self::Alone),
            _ => None,
        }
    }
}
