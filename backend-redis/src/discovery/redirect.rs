//! Where a refused command should go instead.

use redis::{ErrorKind as Driver, RedisError, ServerErrorKind as Server};

use crate::{
    connection::error::is_of_emptied_key,
    settings::{Address, topology::UNNAMED},
};

/// What a refusal says. None of these commands was carried out, except a script that has to be sent
/// again. It may have removed dead entries; if it freed something, its answer says so.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// Another server serves the slot from now on.
    Moved(Address),
    /// The slot is moving, and these keys have already moved to that server.
    Ask(Address),
    /// The slot is moving, with some of the keys here and some there. Or a script has emptied a key
    /// of the slot, and the server refuses that key from then on as if it had moved.
    Again,
    /// To a node that should announce a host name and has none.
    Unnamed,
    /// The server has become a replica.
    Demoted,
    /// The server has lost contact with its cluster, and another may have taken its place.
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
