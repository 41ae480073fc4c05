//! The numbers of this crate that a developer may want to tune, each with its reason. Those of the scripts stand in
//! `redis/scripts/shared.lua`.
#![cfg(feature = "redis")]

use std::time::Duration;

/// The shortest lease, as of one Redis.
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(10);
/// How often a waiter asks where nothing wakes it, jittered: about as often as the other libraries do.
pub(crate) const POLL: Duration = Duration::from_millis(200);
/// The same where a message wakes it, in case one is lost.
pub(crate) const BACKING_POLL: Duration = Duration::from_secs(1);
/// Redis removes expired keys within 100 ms. Clients of this library that stand back after many grants in a row do so for
/// up to the longest rest of a layout.
pub(crate) const EXPIRY_SLACK: Duration = Duration::from_millis(600);
/// How long a holder whose lock has no end is said to hold it: as long as makes no difference.
pub(crate) const ENDLESS: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// How long a client of the other library that was seen to hold a lock counts as alive in a migration. One that locks more
/// seldom, such as a nightly job, is not seen.
pub(crate) const THEIRS_COUNT_FOR: Duration = Duration::from_secs(600);
/// Renewals in one script call: a script holds the whole server up while it runs.
pub(crate) const RENEWALS: usize = 200;
/// After so many waiters the subscriptions that nobody needs any more are ended: one that waits for the next waiter of its
/// name saves that one a round trip.
pub(crate) const SWEEP_SUBSCRIPTIONS: u64 = 64;
