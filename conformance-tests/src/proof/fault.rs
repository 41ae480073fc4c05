//! The faults, and what is asserted of each so that it has really happened.

use std::fmt;

use serde::{Serialize, Serializer};

/// What befalls a store or its clients while a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: the measure for the rest.
    None,
    /// The holder's process is killed (SIGKILL).
    ClientKilled,
    /// The holder's process is stopped (SIGSTOP) until another has held the lock and written.
    ClientPaused,
    /// The holder's connections are closed, and new ones refused, until another holds the lock.
    ConnectionCut,
    /// What the holder's process sends arrives; no answer reaches it, until another holds the lock.
    HalfCut,
    /// Every answer to the holder's process comes later than the lease is long.
    Delayed,
    /// The store is stopped (SIGSTOP) until the holder has been told of its loss.
    ServerPaused,
    /// The store is killed (SIGKILL), and started again with its data.
    ServerRestarted,
    /// The store is killed, and started again without its data.
    DataLost,
}

impl Fault {
    /// Every fault, in the order of the tables.
    pub const ALL: &[Self] = &[
        Self::None,
        Self::ClientKilled,
        Self::ClientPaused,
        Self::ConnectionCut,
        Self::HalfCut,
        Self::Delayed,
        Self::ServerPaused,
        Self::ServerRestarted,
        Self::DataLost,
    ];

    /// Those that need nothing but the clients' own processes: for a store that is somebody's.
    pub const OF_CLIENTS: &[Self] = &[Self::None, Self::ClientKilled, Self::ClientPaused];

    /// How it is named on the command line and in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientKilled => "client killed",
            Self::ClientPaused => "client paused",
            Self::ConnectionCut => "connection cut",
            Self::HalfCut => "half cut",
            Self::Delayed => "delayed",
            Self::ServerPaused => "server paused",
            Self::ServerRestarted => "server restarted",
            Self::DataLost => "data lost",
        }
    }

    /// Whether the holder's connections go through a proxy.
    pub(super) fn is_on_the_way(self) -> bool {
        matches!(self, Self::ConnectionCut | Self::HalfCut | Self::Delayed)
    }

    /// Whether a client that is neither killed nor paused has reason to see an error of the store.
    pub(super) fn spares_the_store(self) -> bool {
        matches!(self, Self::None | Self::ClientKilled | Self::ClientPaused)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}
