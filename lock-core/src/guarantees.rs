//! The promises of a store, and the assumptions of each: data, not prose.
//!
//! The conformance suite chooses its cases by these values, `leasehold check` prints them, and the
//! pages in docs/backends say the same in words.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::tunables::{DRIFT_PART, MOST_READERS, ROUNDING};

/// Something that must be true outside this library for a promise to hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Assumption {
    /// A short, stable word for it, such as `clients-agree-on-longest-lease`.
    pub id: &'static str,
    /// The assumption in a sentence.
    pub text: String,
}

impl Assumption {
    /// An assumption by its id and sentence.
    #[must_use]
    pub fn new(id: &'static str, text: impl Into<String>) -> Self {
        Self { id, text: text.into() }
    }
}

/// Whether a promise is made: it is, or it is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// It holds as long as these assumptions do.
    Holds {
        /// The assumptions.
        assuming: Vec<Assumption>,
    },
    /// It is not made.
    Withheld {
        /// What may happen, and what to change.
        why: String,
    },
}

impl Promise {
    /// Whether the promise is made.
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

/// How a store keeps exclusion over a loss of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum QuarantineUse {
    /// Grants survive everything that the store survives: none is needed.
    NotNeeded,
    /// After a loss of data nothing is granted for one longest lease.
    On,
    /// The store could need one, and an operator turned it off: see the withheld promise.
    Off,
    /// The store could need one and this backend has none: see the assumptions.
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

/// How the connection between a client and its store is protected by the client's settings, whatever the server
/// offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ConnectionSecurity {
    /// It may be unencrypted: an attacker on the network can read and change it.
    Plain,
    /// It is encrypted, but the client does not check the server's identity: a server in its place can read and
    /// change it.
    Unverified,
    /// It is encrypted, and the client checks the certificate of the host.
    Verified,
    /// It does not leave the machine.
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

/// What a backend promises in its present configuration.
///
/// Times are upper bounds, not counting the network. A backend starts from [`Guarantees::new`],
/// which promises nothing, and sets what it keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Guarantees {
    /// S1: validity intervals of two guards of one name never overlap.
    pub exclusion: Promise,
    /// S2: tokens of one name strictly increase over its grants.
    pub tokens: Promise,
    /// Readers and writers: any number of shared grants of one name go together, and none goes with an exclusive one.
    /// `exclusion` and `tokens` then speak of grants of which at least one is exclusive. No reader passes a writer that
    /// waits, also where the store is not `fair`; in Redlock a reader that comes within the error of a clock's estimate
    /// after the writer may. A client refuses
    /// [`Lock::shared`](crate::Lock::shared) where it is withheld.
    pub shared: Promise,
    /// Whether the readers that share a lock at one time all have the same token, so that a fence that refuses lower
    /// tokens admits them all. If not, each reader's token is above those of all writers before it, and below
    /// those of all writers after it.
    pub one_token_for_readers: bool,
    /// How many readers share a lock at most; one more waits. `None` where the store keeps no list of them.
    pub most_readers: Option<usize>,
    /// The shortest lease that the store can set.
    pub shortest_lease: Duration,
    /// The longest lease of the store: its setting, and the bound of a quarantine.
    pub longest_lease: Duration,
    /// Leases are rounded up to a multiple of this.
    pub lease_step: Duration,
    /// How the store keeps exclusion over a loss of its data.
    pub quarantine: QuarantineUse,
    /// L2: a release wakes a waiter by push; `false` means that waiters poll.
    pub push: bool,
    /// L3: places are served first come, first served.
    pub fair: bool,
    /// L1: a crashed holder's lock is free within one lease plus this. A client that waits for many such locks takes them as
    /// fast as the store answers.
    pub expiry_slack: Duration,
    /// L1: how many leases the store ends in a second at most. Of N that end together, those of waiters and spare ones
    /// counted, the last ends later by N divided by this. `None` where each ends at its time.
    pub expiries_per_second: Option<u32>,
    /// L2: a waiter whose push was lost asks again within this.
    pub longest_poll: Duration,
    /// L3: a dead place delays the next by at most this.
    pub dead_place_delay: Duration,
    /// L3: the order is kept as long as neither a client nor the store stands still for longer than this: after a longer
    /// stall places of live clients may be passed over, since nobody has heard of them.
    pub longest_stall: Duration,
    /// The store can lift the token of a held grant, which a migration needs.
    pub raise: bool,
    /// How far a token may lead the store's clock. A store that refuses floors by
    /// [`check_token`](crate::check_token) has its longest lease here. After a loss of data the quarantine must be
    /// at least as long, or the clock gives tokens below those of before.
    pub token_lead: Duration,
    /// How the connection is protected.
    pub connection: ConnectionSecurity,
    /// The version of the store's records that this client reads and writes: a store with another is refused. `None`
    /// where the store keeps none.
    pub record_version: Option<u64>,
}

impl Guarantees {
    /// No promise yet, for leases from `shortest` to `longest`.
    #[must_use]
    pub fn new(shortest: Duration, longest: Duration) -> Self {
        let withheld = || Promise::Withheld { why: "not stated by the backend".into() };
        Self {
            exclusion: withheld(),
            tokens: withheld(),
            shared: Promise::Withheld { why: "the backend grants exclusive locks only".into() },
            one_token_for_readers: false,
            most_readers: Some(MOST_READERS),
            shortest_lease: shortest,
            longest_lease: longest,
            lease_step: Duration::from_millis(1),
            quarantine: QuarantineUse::NotNeeded,
            push: false,
            fair: false,
            expiry_slack: Duration::from_millis(100),
            expiries_per_second: None,
            longest_poll: Duration::from_secs(1),
            dead_place_delay: Duration::ZERO,
            longest_stall: Duration::ZERO,
            raise: false,
            token_lead: Duration::ZERO,
            connection: ConnectionSecurity::Plain,
            record_version: None,
        }
    }
}

/// The time taken off every lease before its holder may rely on it (S3).
///
/// Two clocks count the lease, the store's and the holder's. The default, 1% and 2 ms, allows them
/// to run at rates 1% apart, and covers the rounding of stores that count milliseconds.
#[must_use]
pub fn drift_margin(lease: Duration) -> Duration {
    lease / DRIFT_PART + ROUNDING
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

    #[test]
    fn the_margin_is_one_percent_and_two_milliseconds() {
        assert_eq!(drift_margin(Duration::from_secs(10)), Duration::from_millis(102));
    }
}
