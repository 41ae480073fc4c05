//! What a store promises, and under which assumptions, as data.
//!
//! The conformance suite chooses its cases by these values. `leasehold check` prints them. The
//! pages in docs/backends say the same in words.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::tunables::MOST_READERS;

/// A condition outside this library that must be true for a promise to hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Assumption {
    /// A short, stable id, such as `clients-agree-on-longest-lease`.
    pub id: &'static str,
    /// The assumption as a sentence.
    pub text: String,
}

impl Assumption {
    /// An assumption with this id and sentence.
    #[must_use]
    pub fn new(id: &'static str, text: impl Into<String>) -> Self {
        Self { id, text: text.into() }
    }
}

/// Whether the store makes a promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// The promise holds while all these assumptions are true.
    Holds {
        /// The assumptions.
        assuming: Vec<Assumption>,
    },
    /// The store does not make the promise.
    Withheld {
        /// What may happen, and what to change.
        why: String,
    },
}

impl Promise {
    /// Whether the store makes the promise.
    #[must_use]
    pub fn holds(&self) -> bool {
        matches!(self, Self::Holds { .. })
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds { assuming } if assuming.is_empty() => f.write_str("holds"),
            Self::Holds { assuming } => {
                f.write_str("holds, assuming that ")?;
                for (at, assumption) in assuming.iter().enumerate() {
                    write!(f, "{}{}", if at == 0 { "" } else { "; " }, assumption.text)?;
                }
                Ok(())
            }
            Self::Withheld { why } => write!(f, "withheld: {why}"),
        }
    }
}

/// Whether a quarantine protects exclusion after the store has lost data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum QuarantineUse {
    /// The store needs no quarantine: its grants survive whatever the store survives.
    NotNeeded,
    /// After a loss of data the store grants nothing for one longest lease.
    On,
    /// The store may need a quarantine, but an operator has turned it off; see the withheld
    /// promise.
    Off,
    /// The store may need a quarantine, but this backend has none; see the assumptions.
    Unavailable,
}

impl fmt::Display for QuarantineUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotNeeded => "not needed",
            Self::On => "on: grants nothing for one longest lease after a loss of data",
            Self::Off => "off: after a loss of data a lock may have two holders",
            Self::Unavailable => "none",
        })
    }
}

/// How the client's settings protect its connection to the store, no matter what the server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ConnectionSecurity {
    /// The connection may be unencrypted: an attacker on the network can read and change it.
    Plain,
    /// The connection is encrypted, but the client does not check the server's identity: an
    /// attacker who poses as the server can read and change it.
    Unverified,
    /// The connection is encrypted, and the client checks the certificate of the host.
    Verified,
    /// The connection does not leave the machine.
    Local,
}

impl fmt::Display for ConnectionSecurity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "may be unencrypted: this client does not demand TLS",
            Self::Unverified => "encrypted, but the server's identity is not checked",
            Self::Verified => "encrypted, and the server's certificate is checked",
            Self::Local => "does not leave this machine",
        })
    }
}

/// What a backend promises with its present settings.
///
/// # Durations
///
/// Upper bounds, without the time of the network.
///
/// # For implementers
///
/// Start from [`Guarantees::new`], which promises nothing, and set what the store keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Guarantees {
    /// S1: the validity intervals of two guards of one name never overlap.
    pub exclusion: Promise,
    /// S2: the tokens of one name strictly increase over its grants.
    pub tokens: Promise,
    /// Readers and writers: shared grants of one name may be held together, but never beside an
    /// exclusive grant. `exclusion` and `tokens` are then about grants of which at least one is
    /// exclusive. No reader passes a waiting writer, even if the store is not `fair`. (In Redlock,
    /// a reader may if it comes later than the writer by less than the error of the clock
    /// estimate.) If this is withheld, the client refuses [`Lock::shared`](crate::Lock::shared).
    pub shared: Promise,
    /// A record that was written outlives everything that the store survives, and is kept for its
    /// `keep_for`. If this is withheld, the store may lose records, or keep none. A read then says
    /// since when none was lost
    /// ([`RecordRead::complete_since`](crate::RecordRead::complete_since)).
    pub record: Promise,
    /// Whether all readers that share a lock have the same token, so that a fence that refuses
    /// lower tokens admits them all. If not, a reader's token is above those of all earlier writers
    /// and below those of all later writers.
    pub one_token_for_readers: bool,
    /// The most readers that can share a lock; one more waits. `None` if the store keeps no list of
    /// readers.
    pub most_readers: Option<usize>,
    /// The shortest lease that the store can set.
    pub shortest_lease: Duration,
    /// The longest lease: a setting of the store, and the bound of a quarantine.
    pub longest_lease: Duration,
    /// The store rounds leases up to a multiple of this. Default: 1 ms.
    pub lease_step: Duration,
    /// Whether a quarantine protects exclusion after a loss of data.
    pub quarantine: QuarantineUse,
    /// Whether a store that nobody has used since its server's start grants at once. If this is
    /// withheld, its first client waits for a quarantine, unless an operator says that nobody can
    /// hold a lock ([`Init::first_use`](crate::Init::first_use)). `None` if the backend does not
    /// tell the two cases apart, or needs no quarantine.
    pub first_use: Option<Promise>,
    /// L2: a release wakes a waiter by push. If `false`, waiters poll.
    pub push: bool,
    /// L3: waiters get the lock in the order of their queue entries.
    pub fair: bool,
    /// L1: the lock of a crashed holder is free within one lease plus this. A client that waits for
    /// many such locks gets them as fast as the store answers. Default: 100 ms.
    pub expiry_slack: Duration,
    /// L1: no clock of the store ends a lease. A client counts it on its own clock, from the moment
    /// when it first saw the holder. So the lock of a crashed holder is free only after *one client
    /// has looked* for a lease: a client that tries once never gets it. Default: `false`.
    pub expiry_is_observed: bool,
    /// L1: how many leases the store can end in one second. If N leases end together (also those of
    /// waiters, and spare ones), the last ends N divided by this seconds late. `None` if each lease
    /// ends on time.
    pub expiries_per_second: Option<u32>,
    /// L2: a waiter whose push was lost polls within this time. Default: 1 s.
    pub longest_poll: Duration,
    /// L3: the queue entry of a crashed client delays the next one by at most this.
    pub dead_waiter_delay: Duration,
    /// L3: waiters keep their order while no client and no store stalls for longer than this. After
    /// a longer stall the store may skip entries of live clients, because their heartbeats are
    /// missing.
    pub longest_stall: Duration,
    /// Whether the store can raise the token of a held grant. A migration needs this.
    pub raise: bool,
    /// Whether a held lock can be handed over to another client
    /// ([`Guard::detach`](crate::Guard::detach)).
    pub hand_over: bool,
    /// How far a token may lead the store's clock: the longest lease, if the store refuses floors
    /// by [`check_token`](crate::check_token). After a loss of data the quarantine must last at
    /// least as long. Otherwise the clock would give tokens below earlier ones.
    pub token_lead: Duration,
    /// How the connection is protected.
    pub connection: ConnectionSecurity,
    /// The version of the store's records that this client reads and writes. The client refuses a
    /// store with another version. `None` if the store keeps none.
    pub record_version: Option<u64>,
}

impl Guarantees {
    /// Promises nothing yet, for leases from `shortest` to `longest`.
    #[must_use]
    pub fn new(shortest: Duration, longest: Duration) -> Self {
        let withheld = || Promise::Withheld { why: "not stated by the backend".into() };
        Self {
            exclusion: withheld(),
            tokens: withheld(),
            shared: Promise::Withheld { why: "the backend grants exclusive locks only".into() },
            record: Promise::Withheld { why: "the backend keeps no records".into() },
            one_token_for_readers: false,
            most_readers: Some(MOST_READERS),
            shortest_lease: shortest,
            longest_lease: longest,
            lease_step: Duration::from_millis(1),
            quarantine: QuarantineUse::NotNeeded,
            first_use: None,
            push: false,
            fair: false,
            expiry_slack: Duration::from_millis(100),
            expiry_is_observed: false,
            expiries_per_second: None,
            longest_poll: Duration::from_secs(1),
            dead_waiter_delay: Duration::ZERO,
            longest_stall: Duration::ZERO,
            raise: false,
            hand_over: false,
            token_lead: Duration::ZERO,
            connection: ConnectionSecurity::Plain,
            record_version: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_reads_as_a_sentence() {
        let promise = Promise::Holds {
            assuming: vec![
                Assumption::new("clock", "the clock runs"),
                Assumption::new("disk", "the disk keeps what was flushed"),
            ],
        };
        assert_eq!(
            promise.to_string(),
            "holds, assuming that the clock runs; the disk keeps what was flushed"
        );
        assert!(!Promise::Withheld { why: "no fsync".into() }.holds());
    }
}
