//! All tunable numbers of this crate, each with its reason.

use std::{ops::RangeInclusive, time::Duration};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

// ---- Settings of a client ----

/// The time limit of a call, by default: longer than an election.
pub(crate) const TIMEOUT: Duration = seconds(5);
/// The range of time limits that a client may choose.
pub(crate) const TIMEOUTS: RangeInclusive<Duration> = millis(1)..=seconds(3600);
/// ZooKeeper's own default of `tickTime`.
pub(crate) const TICK: Duration = seconds(2);
/// The range of ticks that a client may expect.
pub(crate) const TICKS: RangeInclusive<Duration> = millis(1)..=seconds(60);
/// The range of longest leases that an operator may choose. A quarantine lasts as long as the
/// longest lease.
pub(crate) const LONGEST_LEASES: RangeInclusive<Duration> = seconds(1)..=seconds(7 * 24 * 3600);

// ---- Sessions ----

/// A session lasts longer than the lease by this part of it. So a lock is valid for its whole lease
/// after a renewal, although the validity counts from the write before. With the default tick, the
/// session of the default longest lease then is 40 s, the longest that ZooKeeper gives.
pub(crate) const SESSION_PART: u32 = 3;
/// A session writes once in this part of the lease, also while it is idle.
pub(crate) const TOUCH_PART: u32 = 3;
/// A renewal writes if the validity would end earlier by more than this part of the lease. It must
/// be below the quarter of the lease after which the core renews again.
pub(crate) const LATE_PART: u32 = 8;
/// The shortest lease in ticks. A third of it must be above one and a half ticks.
pub(crate) const SHORTEST_TICKS: u32 = 5;
/// So many half ticks before an answered write is sent, a request must have been answered, so that
/// the leader knows of it: followers report to the leader with its pings, each half tick. One tick
/// more for a ping that is late.
pub(crate) const KNOWN_AFTER_HALF_TICKS: u32 = 3;
/// How many sessions a client may have, each with a connection: one for the longest lease, with
/// which it asks, and one for each of eight other lease lengths. ZooKeeper allows 60 connections of
/// one address by default.
pub(crate) const MOST_SESSIONS: usize = 9;
/// Requests that are this part of the lease apart are remembered one by one.
pub(crate) const REMEMBERED_PART: u32 = 24;
/// The pause after a write of a session that failed.
pub(crate) const TOUCH_PAUSE: Duration = millis(100);

// ---- Waiting ----

/// How often the first waiter polls, in addition to the push. Waiters further back poll less often.
pub(crate) const POLL: Duration = millis(500);
/// Beyond this distance to the holder, the pause between polls no longer grows.
pub(crate) const FAR: u32 = 20;
/// The longest pause between polls.
pub(crate) const LONGEST_POLL: Duration = POLL.saturating_mul(FAR);
/// No waiter polls more often than this, even for a lock that is about to be free.
pub(crate) const SHORTEST_POLL: Duration = millis(20);

// ---- Steps ----

/// How often a step starts again after others changed what it had read.
pub(crate) const TRIES: usize = 32;
/// How many nodes one request reads.
pub(crate) const READ_AT_ONCE: usize = 200;
/// How many names are listed on a page, about.
pub(crate) const PAGE: usize = 200;
/// How long a tombstone stays: longer than a request can be under way.
pub(crate) const TOMBSTONE_LIFE: Duration = seconds(60);
/// How long a name is remembered after its last use: longer than a job that runs once a week rests,
/// and longer than tokens can lead the clock, which is the longest lease.
pub(crate) const FORGOTTEN_AFTER: Duration = seconds(8 * 24 * 3600);
/// After how many releases, on average, a client looks for names to forget.
pub(crate) const SWEEP_EVERY: u128 = 64;
/// At how many names it looks then: at more than one for each release, or the store would grow with
/// the names.
pub(crate) const SWEPT_AT_ONCE: usize = 100;
const _: () = assert!(SWEPT_AT_ONCE as u128 > SWEEP_EVERY);
/// How many names a client remembers as busy.
pub(crate) const REMEMBERED_NAMES: usize = 10_000;

// ---- Tokens ----

/// How far tokens may lag behind the clock. This bounds how often the offset is raised.
pub(crate) const TOKEN_LAG: Duration = seconds(1);
