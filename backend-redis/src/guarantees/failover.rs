//! How long a master may go on writing after a replica was promoted in its place.
//!
//! A lease that was granted or renewed there in that time outlives the promotion by as much, so the
//! quarantine of the new master is longer by this margin.

use std::time::Duration;

use crate::{
    connection::identity::Identity,
    settings::{Settings, Topology},
    tunables::{CLUSTER_CRON, CONFIRMED_WITHIN, LAG_COUNTED_BY},
};

/// The risk of a failover for a script that may grant; the better comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failover {
    /// No replica is there to be promoted, nor was one in the last hour.
    None,
    /// Nothing counts that an old master writes: its replicas do not acknowledge it.
    Acknowledged,
    /// An old master has stopped writing after so long.
    Bounded(Duration),
    /// An old master may go on writing for ever, or for a time that is not known.
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
        // A paused master goes on where it was, and answers what was sent while the last handshake
        // counted, before it notices what it has missed.
        let bound = match settings.topology {
            Topology::Single(_) | Topology::Sentinel(_) => {
                let lag = limits.max_lag.filter(|_| identity.good_replicas.is_some());
                lag.map(|lag| lag + LAG_COUNTED_BY + CONFIRMED_WITHIN)
            }
            // It pings each node at least twice in this time, and gives up on one that has been silent
            // for as long.
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
