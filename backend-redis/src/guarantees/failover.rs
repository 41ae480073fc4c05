//! How long an old master may accept writes after a replica was promoted in its place.
//!
//! A lease that the old master granted or renewed in that time ends later by as much. So the
//! quarantine of the new master is longer by this margin.

use std::time::Duration;

use crate::{
    connection::identity::Identity,
    settings::{Settings, Topology},
    tunables::{CLUSTER_CRON, CONFIRMED_WITHIN, LAG_COUNTED_BY},
};

/// The risk that a failover brings to a script that may grant. The smaller risk comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failover {
    /// There is no replica to promote, and was none in the last hour.
    None,
    /// Writes of an old master do not count: its replicas do not acknowledge them.
    Acknowledged,
    /// An old master has stopped writing after this time.
    Bounded(Duration),
    /// An old master may accept writes for ever, or for an unknown time.
    Unbounded,
}

impl Failover {
    pub(crate) fn of(settings: &Settings, identity: &Identity) -> Self {
        if !settings.topology.fails_over() && !identity.is_replicated() {
            return Self::None;
        }
        if settings.acknowledgement().is_some() {
            return Self::Acknowledged;
        }
        if let Some(margin) = settings.failover_margin {
            return Self::Bounded(margin);
        }
        let limits = &identity.limits;
        // A master that was paused resumes where it stopped. It answers requests that clients sent
        // while its last handshake was still valid, before it notices what it has missed.
        let bound = match settings.topology {
            Topology::Single(_) | Topology::Sentinel(_) => {
                let lag = limits.max_lag.filter(|_| identity.good_replicas.is_some());
                lag.map(|lag| lag + LAG_COUNTED_BY + CONFIRMED_WITHIN)
            }
            // A node pings each other node at least twice in this time, and marks one as failed
            // that has been silent for as long.
            Topology::Cluster(_) => {
                let silence = limits.node_timeout.map(|timeout| timeout * 2);
                silence.map(|silence| silence + CLUSTER_CRON + CONFIRMED_WITHIN)
            }
        };
        bound.map_or(Self::Unbounded, Self::Bounded)
    }

    /// The last argument of a script that may grant: empty, or the margin in microseconds.
    pub(crate) fn argument(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Bounded(margin) => margin.as_micros().to_string(),
            Self::Acknowledged | Self::Unbounded => "0".to_owned(),
        }
    }
}
