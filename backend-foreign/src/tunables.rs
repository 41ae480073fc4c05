//! The tunable numbers of this crate, each with its reason. Those of the scripts are in
//! `redis/scripts/shared.lua`.

use std::time::Duration;

/// The shortest lease, the same as for a single Redis.
#[cfg(feature = "redis")]
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(10);
/// How often a waiter polls if no message wakes it, jittered: about as often as the other libraries
/// do.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) const POLL: Duration = Duration::from_millis(200);
/// The same if messages wake it, since a message may be lost.
#[cfg(feature = "redis")]
pub(crate) const BACKING_POLL: Duration = Duration::from_secs(1);
/// Redis removes expired keys within 100 ms. In addition, leasehold clients leave a lock alone
/// after many grants in a row, for up to the longest rest of a layout.
#[cfg(feature = "redis")]
pub(crate) const EXPIRY_SLACK: Duration = Duration::from_millis(600);
/// How long a foreign client counts as running in a migration after it was seen as a holder. A
/// client that locks less often, such as a nightly job, is not noticed.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) const FOREIGN_CLIENT_LIFE: Duration = Duration::from_secs(600);
/// Renewals in one script call: a script blocks the whole server while it runs.
#[cfg(feature = "redis")]
pub(crate) const RENEWALS: usize = 200;
/// After this many waiters, the client ends the subscriptions without waiters. It keeps them until
/// then, because a subscription saves the next waiter of its name a round trip.
#[cfg(feature = "redis")]
pub(crate) const SWEEP_SUBSCRIPTIONS: u64 = 64;
/// In SQL, the longest pause between two polls of a waiter: that of the common flow, to which the
/// jittered pause of this crate's waiter may add as much.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) const SQL_LONGEST_POLL: Duration = Duration::from_millis(500);
/// Added to leases, because MySQL rounds times to the column's milliseconds and a lease must not
/// end early.
#[cfg(feature = "mysql")]
pub(crate) const ROUNDED: Duration = Duration::from_millis(1);
