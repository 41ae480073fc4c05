//! The numbers of this crate that a developer may want to tune, each with its reason. Those of the scripts stand in
//! `redis/scripts/shared.lua`.

use std::time::Duration;

/// The shortest lease, as of one Redis.
#[cfg(feature = "redis")]
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(10);
/// How often a waiter asks if nothing wakes it, jittered: about as often as the other libraries do.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) const POLL: Duration = Duration::from_millis(200);
/// The same if messages wake it: one may be lost.
#[cfg(feature = "redis")]
pub(crate) const BACKING_POLL: Duration = Duration::from_secs(1);
/// Redis removes expired keys within 100 ms. And our clients leave a lock alone after many grants in a row, for up to the
/// longest rest of a layout.
#[cfg(feature = "redis")]
pub(crate) const EXPIRY_SLACK: Duration = Duration::from_millis(600);
/// The remaining time that is reported for a lock without an end: so long that a longer one would make no difference.
#[cfg(feature = "redis")]
pub(crate) const ENDLESS: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// How long a client of the other library counts as alive in a migration after it was seen as a holder. A client that locks less
/// often, such as a nightly job, is not seen.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) const THEIRS_COUNT_FOR: Duration = Duration::from_secs(600);
/// Renewals in one script call: a script blocks the whole server while it runs.
#[cfg(feature = "redis")]
pub(crate) const RENEWALS: usize = 200;
/// After so many waiters the client ends the subscriptions that nobody needs. It keeps them until then, because a subscription
/// saves the next waiter of its name a round trip.
#[cfg(feature = "redis")]
pub(crate) const SWEEP_SUBSCRIPTIONS: u64 = 64;
/// In SQL, the longest pause of the common flow between two polls of a waiter: a waiter in our jittered pause may add as much.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) const SQL_LONGEST_POLL: Duration = Duration::from_millis(500);
/// MySQL rounds a time to the column's milliseconds: a lease must not end earlier for it.
#[cfg(feature = "mysql")]
pub(crate) const ROUNDED: Duration = Duration::from_millis(1);
