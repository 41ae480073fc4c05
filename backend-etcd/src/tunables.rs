//! Every number of this crate that could be another, with its reason.

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
/// The time limits that a client may choose.
pub(crate) const TIMEOUTS: RangeInclusive<Duration> = millis(1)..=seconds(3600);
/// The longest leases that an operator may choose: a quarantine lasts as long.
pub(crate) const LONGEST_LEASES: RangeInclusive<Duration> = seconds(1)..=seconds(7 * 24 * 3600);
/// The pool of leases, by default: enough for a burst to save most writes. The leases of clients that die together end
/// at [`EXPIRIES_PER_SECOND`], and unused ones stand in the same line.
pub(crate) const POOL: usize = 16;
/// The largest pool that a client may choose: etcd keeps all leases in memory.
pub(crate) const LARGEST_POOL: usize = 1_000;

// ---- Connections ----

/// How often a connection with a stream on it is pinged: etcd refuses pings that come more often than every 5 s.
pub(crate) const PING_EVERY: Duration = seconds(6);
/// How long the answer to a ping may take.
pub(crate) const PING_ANSWER: Duration = seconds(3);
/// How many bytes are gathered before they are sent: more than a request without a large value has.
pub(crate) const GATHERED_BYTES: usize = 16 * 1024;

// ---- Leases ----

/// A pool of which this part of the last burst or less is left is refilled.
pub(crate) const REFILL_BELOW: usize = 4;
/// A pooled lease older than this part of its TTL is kept alive before it is used, so that its holder gets most of it.
pub(crate) const OLD_AFTER: u32 = 6;
/// A waiter's lease is kept alive after this part of its TTL, so that two keepalives may be lost.
pub(crate) const KEEPALIVES_PER_LEASE: u32 = 3;
/// Before a waiter repeats a keepalive that had no answer.
pub(crate) const KEEPALIVE_PAUSE: Duration = millis(100);
/// A keepalive stream on which keepalives wait and nothing is answered for this long is given up: it hangs, and has no
/// other way to say so. One answer may take longer: a follower passes keepalives on to the leader one after the
/// other, so that the last of 10,000 waits for seconds.
pub(crate) const SILENT_KEEPALIVES: Duration = seconds(1);
/// Between two attempts to open a keepalive stream.
pub(crate) const STREAM_PAUSE: Duration = millis(20);
/// How long a tombstone lives at least: longer than an attempt is on its way.
pub(crate) const TOMBSTONE_LIFE: Duration = seconds(60);

// ---- Waiting ----

/// How often the first waiter asks, besides the push; a waiter further back asks more seldom.
pub(crate) const POLL: Duration = millis(500);
/// From this distance to the holder on the pauses grow no more. Each question makes etcd read all entries of its name.
pub(crate) const FAR: u32 = 20;
/// The longest pause. A watch that tells nothing more is noticed sooner: [`SILENT_WATCH`].
pub(crate) const LONGEST_POLL: Duration = POLL.saturating_mul(FAR);
/// No waiter asks more often, even for a lock that is about to expire.
pub(crate) const SHORTEST_POLL: Duration = millis(20);
/// How many ends of entries are remembered: the watch may tell of an end before the answer that names the entry behind it.
pub(crate) const REMEMBERED_ENDS: usize = 64;
/// So many names and keys of a client are watched each by itself. Where it would watch more, one watch tells of the ends
/// of all names, also of those that nobody here waits for.
pub(crate) const MOST_WATCHED: usize = 16;
/// A writer with so many entries before it watches only the one that it follows: otherwise each end would be told to all.
pub(crate) const CROWDED: i64 = 8;
/// Between two attempts to open the watch.
pub(crate) const WATCH_PAUSE: Duration = millis(50);
/// While a client waits, a watch that was silent for this long is asked for its progress, and one that does not
/// answer for as long again is given up.
pub(crate) const SILENT_WATCH: Duration = seconds(1);

// ---- Steps ----

/// How often a step starts anew after the settings changed or its lease ended.
pub(crate) const TRIES: usize = 32;
/// How many keys a page of a listing reads.
pub(crate) const PAGE: i64 = 200;
/// How many leases are asked about at once for a page, and at most for one name.
pub(crate) const LEASES_AT_ONCE: usize = 16;

// ---- Restore detection ----

/// How often the cluster is observed again after a new connection or a member that lags spoilt it.
pub(crate) const OBSERVE_TRIES: usize = 64;
/// Before the next observation of a member that lags.
pub(crate) const OBSERVE_PAUSE: Duration = millis(10);
/// After this long the next grant waits for another observation, also over the same connection.
pub(crate) const OBSERVATION_LIFE: Duration = seconds(60);

// ---- Tokens and guarantees ----

/// How far tokens may lag the clock. It bounds how often the offset is raised, which costs every other client a look.
pub(crate) const TOKEN_LAG: Duration = seconds(1);
/// Settings that were seen longer ago are likely to have another offset by now.
pub(crate) const OLD_SETTINGS: Duration = Duration::from_nanos(TOKEN_LAG.as_nanos() as u64 / 16);
/// By how much tokens may lead the clock beyond the longest lease: the revisions that are written meanwhile.
pub(crate) const TOKEN_MARGIN: Duration = seconds(1);
/// How long an expired lease may stay: etcd looks for them twice a second.
pub(crate) const EXPIRY_DELAY: Duration = seconds(2);
/// How many expired leases etcd ends in a second, at most: no flag changes it.
pub(crate) const EXPIRIES_PER_SECOND: u32 = 1_000;
