//! The numbers of this crate that a developer may want to tune, each with its reason. Those of the scripts stand in
//! `redis/scripts/shared.lua`.

use std::time::Duration;

/// The shortest lease, as of one Redis.
#[cfg(feature = "redis")]
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(10);
/// How often a waiter asks where nothing wakes it, jittered: about as often as the other libraries do.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) const POLL: Duration = Duration::from_millis(200);
/// The same where a message wakes it, in case one is lost.
#[cfg(feature = "redis")]
pub(crate) const BACKING_POLL: Duration = Duration::from_secs(1);
/// Redis removes expired keys within 100 ms. Clients of this library that stand back after many grants in a row do so for
/// up to the longest rest of a layout.
#[cfg(feature = "redis")]
pub(crate) const EXPIRY_SLACK: Duration = Duration::from_millis(600);
/// How long a holder whose lock has no end is said to hold it: as long as makes no difference.
#[cfg(feature = "redis")]
pub(crate) const ENDLESS: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// How long a client of the other library that was seen to hold a lock counts as alive in a migration. One that locks more
/// seldom, such as a nightly job, is not seen.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) const THEIRS_COUNT_FOR: Duration = Duration::from_secs(600);
/// Renewals in one script call: a script holds the whole server up while it runs.
#[cfg(feature = "redis")]
pub(crate) const RENEWALS: usize = 200;
/// After so many waiters the subscriptions that nobody needs any more are ended: one that waits for the next waiter of its
/// name saves that one a round trip.
#[cfg(feature = "redis")]
pub(crate) const SWEEP_SUBSCRIPTIONS: u64 = 64;
/// In SQL the flow's own longest pause between two polls of a waiter, which is what a waiter in our jittered pause may add.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) const SQL_LONGEST_POLL: Duration = Duration::from_millis(500);
/// MySQL rounds a time to the column's milliseconds: a lease must not end earlier for it.
#[cfg(feature = "mysql")]
pub(crate) const ROUNDED: Duration = Duration::from_millis(1);
