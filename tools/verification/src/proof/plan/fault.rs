//! The faults.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// What happens to a store or its clients while the victim holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fault {
    /// No fault, for comparison.
    None,
    /// The holder's process is killed (SIGKILL).
    ClientKilled,
    /// The holder's process is stopped (SIGSTOP) until another has held the lock and written.
    ClientPaused,
    /// The holder's connections are closed, and new ones refused, until another holds the lock.
    ConnectionCut,
    /// Requests of the holder's process arrive, but no answer reaches it, until another holds the
    /// lock.
    HalfCut,
    /// No request of the holder's process arrives, until another holds the lock.
    RequestsLost,
    /// Every answer to the holder's process takes longer than the lease.
    Delayed,
    /// The store is stopped (SIGSTOP) until the holder's guard has reported its loss.
    ServerPaused,
    /// The store is killed (SIGKILL), and started again with its data.
    ServerRestarted,
    /// The store is killed, and started again without its data.
    DataLost,
    /// The store is killed, and its last writes are removed, as after a loss of power.
    TailLost,
    /// A copy of the store's data, made before the lock was acquired, is restored.
    Restored,
    /// Each flush of the store's disk is slow.
    SlowDisk,
    /// The store's disk is full.
    FullDisk,
    /// The wall clock of the store steps an hour forward.
    ClockForward,
    /// The wall clock of the store steps a minute back.
    ClockBack,
    /// The server that leads is killed, and another takes its place.
    FailedOver,
    /// Of several servers, as many are killed as the store promises to survive.
    MemberKilled,
    /// Of several servers, as many are stopped as the store promises to survive.
    MemberPaused,
    /// Of several servers, more are killed than the store can survive; later they start again.
    QuorumLost,
}

impl Fault {
    /// Every fault, in the order of the tables.
    pub const ALL: &[Self] = &[
        Self::None,
        Self::ClientKilled,
        Self::ClientPaused,
        Self::ConnectionCut,
        Self::HalfCut,
        Self::RequestsLost,
        Self::Delayed,
        Self::ServerPaused,
        Self::ServerRestarted,
        Self::DataLost,
        Self::TailLost,
        Self::Restored,
        Self::SlowDisk,
        Self::FullDisk,
        Self::ClockForward,
        Self::ClockBack,
        Self::FailedOver,
        Self::MemberKilled,
        Self::MemberPaused,
        Self::QuorumLost,
    ];

    /// The faults that affect only the client processes: for a store of the user's.
    pub const OF_CLIENTS: &[Self] = &[Self::None, Self::ClientKilled, Self::ClientPaused];

    /// The name on the command line and in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientKilled => "client killed",
            Self::ClientPaused => "client paused",
            Self::ConnectionCut => "connection cut",
            Self::HalfCut => "answers lost",
            Self::RequestsLost => "requests lost",
            Self::Delayed => "delayed",
            Self::ServerPaused => "server paused",
            Self::ServerRestarted => "server restarted",
            Self::DataLost => "data lost",
            Self::TailLost => "tail lost",
            Self::Restored => "copy restored",
            Self::SlowDisk => "slow disk",
            Self::FullDisk => "full disk",
            Self::ClockForward => "clock forward",
            Self::ClockBack => "clock back",
            Self::FailedOver => "failed over",
            Self::MemberKilled => "member killed",
            Self::MemberPaused => "member paused",
            Self::QuorumLost => "quorum lost",
        }
    }

    /// Whether the holder's connections go through a proxy.
    #[must_use]
    pub fn is_in_the_network(self) -> bool {
        matches!(self, Self::ConnectionCut | Self::HalfCut | Self::RequestsLost | Self::Delayed)
    }

    /// Whether a store that keeps its records over a crash has all of them after this fault.
    #[must_use]
    pub(crate) fn spares_kept_records(self) -> bool {
        use Fault::{MemberKilled, MemberPaused, QuorumLost, ServerRestarted, SlowDisk};

        self.spares_all_data()
            || matches!(self, ServerRestarted | SlowDisk | MemberKilled | MemberPaused | QuorumLost)
    }

    /// Whether no store can lose data by this fault.
    #[must_use]
    pub(crate) fn spares_all_data(self) -> bool {
        self.spares_the_store() || self.is_in_the_network() || self == Self::ServerPaused
    }

    /// Whether the store is healthy, so that a client that is neither killed nor paused must not
    /// get an error.
    #[must_use]
    pub fn spares_the_store(self) -> bool {
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

impl<'a> Deserialize<'a> for Fault {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let found = Self::ALL.iter().find(|fault| fault.name() == name);
        found.copied().ok_or_else(|| D::Error::custom(format!("{name:?} is no fault")))
    }
}
