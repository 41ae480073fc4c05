//! What a store promises, and what each promise rests on: data, not prose.
//!
//! The conformance suite chooses its cases by these values, `leasehold check` prints them, and the
//! README's table is made of them.

use std::{fmt, time::Duration};

use serde::Serialize;

/// Something that must be true outside this library for a promise to hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

/// Whether a promise is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// It holds as long as these assumptions do.
    Holds {
        /// What it rests on.
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
pub enum QuarantineUse {
    /// Grants outlive whatever the store survives: none is needed.
    NotNeeded,
    /// After a loss of data nothing is granted for one longest lease.
    On,
    /// The store could need one, and an operator turned it off: see the withheld promise.
    Off,
    /// The store could need one and this backend has none: see the assumptions.
    Unavailable,
}

/// How what passes between a client and its store is protected, by the client's settings: not by what a server happens
/// to offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// It may be unencrypted: somebody on the network's way reads it, and changes it.
    Plain,
    /// It is encrypted, and it is not checked that the other side is this host: a server in its place reads it, and
    /// changes it.
    Unverified,
    /// It is encrypted, with a certificate of the host's that is checked.
    Verified,
    /// It does not leave the machine.
    Local,
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
    /// L1: a crashed holder's lock is free within one lease plus this.
    pub expiry_slack: Duration,
    /// L2: a waiter whose push was lost asks again within this.
    pub longest_poll: Duration,
    /// L3: a dead place delays the next by at most this.
    pub dead_place_delay: Duration,
    /// The store can lift the token of a held grant, which a migration needs.
    pub raise: bool,
    /// How far tokens may run ahead of the store's clock.
    pub token_lead: Duration,
    /// How the connection is protected.
    pub link: Link,
}

impl Guarantees {
    /// No promise yet, for leases from `shortest` to `longest`.
    #[must_use]
    pub fn new(shortest: Duration, longest: Duration) -> Self {
        let withheld = || Promise::Withheld { why: "not stated by the backend".into() };
        Self {
            exclusion: withheld(),
            tokens: withheld(),
            shortest_lease: shortest,
            longest_lease: longest,
            lease_step: Duration::from_millis(1),
            quarantine: QuarantineUse::NotNeeded,
            push: false,
            fair: false,
            expiry_slack: Duration::from_millis(100),
            longest_poll: Duration::from_secs(1),
            dead_place_delay: Duration::ZERO,
            raise: false,
            token_lead: Duration::ZERO,
            link: Link::Plain,
        }
    }
}

/// The time taken off every lease before its holder may rely on it (S3).
///
/// Two clocks count the lease, the store's and the holder's. The default, 1% and 2 ms, allows them
/// to run at rates 1% apart, and covers the rounding of stores that count milliseconds.
#[must_use]
pub fn drift_margin(lease: Duration) -> Duration {
    lease / 100 + Duration::from_millis(2)
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
