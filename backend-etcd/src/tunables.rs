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
/// The range of longest leases that an operator may choose. A quarantine lasts as long as the
/// longest lease.
pub(crate) const LONGEST_LEASES: RangeInclusive<Duration> = seconds(1)..=seconds(7 * 24 * 3600);
/// The size of the lease pool, by default: large enough for bursts to save most writes. It is no
/// larger because the leases of clients that die together expire at [`EXPIRIES_PER_SECOND`], and
/// unused leases count too.
pub(crate) const SPARE_LEASES: usize = 16;
/// The largest pool that a client may choose: etcd keeps all leases in memory.
pub(crate) const MOST_SPARE_LEASES: usize = 1_000;

// ---- Connections ----

/// How often the client pings a connection that carries a stream. etcd refuses pings more often
/// than every 5 s.
pub(crate) const PING_EVERY: Duration = seconds(6);
/// How long the answer to a ping may take.
pub(crate) const PING_ANSWER: Duration = seconds(3);
/// How many bytes are buffered before they are sent: more than a request without a large value
/// needs.
pub(crate) const BUFFERED_BYTES: usize = 16 * 1024;

// ---- Leases ----

/// The pool is refilled when no more than this fraction (one in so many) of the last burst is left.
pub(crate) const REFILL_BELOW: usize = 4;
/// A pooled lease older than this fraction of its TTL gets a keepalive before it is used, so that
/// its holder gets most of it.
pub(crate) const OLD_AFTER: u32 = 6;
/// A waiter's lease gets a keepalive after this fraction of its TTL, so that two keepalives may be
/// lost.
pub(crate) const KEEPALIVES_PER_LEASE: u32 = 3;
/// The pause before a waiter repeats a keepalive that had no answer.
pub(crate) const KEEPALIVE_PAUSE: Duration = millis(100);
/// If keepalives wait for answers and none arrives for this long, the client gives up the stream: a
/// hanging stream shows no error. A single answer may take longer than this, because a follower
/// forwards keepalives to the leader one by one: the last of 10,000 waits for seconds.
pub(crate) const SILENT_KEEPALIVES: Duration = seconds(1);
/// The pause between two attempts to open a keepalive stream.
pub(crate) const STREAM_PAUSE: Duration = millis(20);
/// The shortest life of a tombstone: longer than a request can be under way.
pub(crate) const TOMBSTONE_LIFE: Duration = seconds(60);

// ---- Waiting ----

/// How often the first waiter polls, in addition to the push. Waiters further back poll less often.
pub(crate) const POLL: Duration = millis(500);
/// Beyond this distance to the holder, the pause between polls no longer grows. Each poll makes
/// etcd read all entries of its name.
pub(crate) const FAR: u32 = 20;
/// The longest pause between polls. A watch that hangs is detected sooner: [`SILENT_WATCH`].
pub(crate) const LONGEST_POLL: Duration = POLL.saturating_mul(FAR);
/// No waiter polls more often than this, even for a lock that is about to expire.
pub(crate) const SHORTEST_POLL: Duration = millis(20);
/// How many deletions of entries the client remembers. The watch may report a deletion before the
/// client has read the answer that says which waiter follows the deleted entry.
pub(crate) const REMEMBERED_DELETIONS: usize = 64;
/// How many names and keys a client watches one by one. If it needs more, one watch covers all
/// names, including those that no waiter of this client waits for.
pub(crate) const MOST_WATCHED: usize = 16;
/// With so few names and keys it watches them one by one again. One more or less than
/// [`MOST_WATCHED`] would otherwise change all watches each time.
pub(crate) const FEW_WATCHED: usize = MOST_WATCHED / 2;
/// A writer with at least so many entries before it watches only its predecessor. Otherwise etcd
/// would report each release to all waiting clients. Such a writer checks its turn once more when
/// that watch has begun, which costs etcd more than so many reports.
pub(crate) const CROWDED: i64 = 24;
/// The pause between two attempts to open the watch.
pub(crate) const WATCH_PAUSE: Duration = millis(50);
/// While a client waits, it asks a watch that was silent for this long for its progress. If no
/// answer comes for as long again, the client gives up the watch. It is no shorter because every
/// waiting client asks: with one second, that was most of what 500 waiting clients sent.
pub(crate) const SILENT_WATCH: Duration = seconds(3);

// ---- Steps ----

/// How often a step starts again after the settings changed or its lease expired.
pub(crate) const TRIES: usize = 32;
/// How many keys a page of a listing reads.
pub(crate) const PAGE: i64 = 200;
/// How many leases are queried at the same time for a page, and at most for one name.
pub(crate) const LEASES_AT_ONCE: usize = 16;

// ---- Restore detection ----

/// How often an observation of the cluster is repeated after a new connection or a lagging member
/// made it unusable.
pub(crate) const OBSERVE_TRIES: usize = 64;
/// The pause before observing a lagging member again.
pub(crate) const OBSERVE_PAUSE: Duration = millis(10);
/// How long an observation is valid. After that the next grant needs a new one, even over the same
/// connection.
pub(crate) const OBSERVATION_LIFE: Duration = seconds(60);

// ---- Tokens and guarantees ----

/// How far tokens may lag behind the clock. This bounds how often the offset is raised, and each
/// raise costs every other client one read.
pub(crate) const TOKEN_LAG: Duration = seconds(1);
/// Settings that were read longer ago than this are likely to have another offset by now.
pub(crate) const OLD_SETTINGS: Duration = Duration::from_nanos(TOKEN_LAG.as_nanos() as u64 / 16);
/// By how much tokens may lead the clock beyond the longest lease: room for the revisions that are
/// written meanwhile.
pub(crate) const TOKEN_MARGIN: Duration = seconds(1);
/// How long an expired lease may remain: etcd looks for expired leases twice a second.
pub(crate) const EXPIRY_DELAY: Duration = seconds(2);
/// How many expired leases etcd revokes per second at most. No flag of etcd changes this.
pub(crate) const EXPIRIES_PER_SECOND: u32 = 1_000;
