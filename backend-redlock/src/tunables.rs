//! The numbers of this crate that a developer may want to tune, each with its reason.
//!
//! Numbers of the node's scripts stand where they are used: `TURN_US` in `acquire.lua` and `free.lua`, `LIFE_US` in
//! `free.lua`, and `LIFE_US` and `TOMB_MS` in `limits.lua` of `backend-redis`.

use std::{ops::RangeInclusive, time::Duration};

use backend_redis::batching::BatchPolicy;

// Clocks.

/// How far a node's clock may be from the median, by default: NTP keeps it far below, also on a bad day.
pub(crate) const CLOCK_BOUND: Duration = Duration::from_millis(100);
/// The clock bounds that a client may name.
pub(crate) const CLOCK_BOUNDS: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(60);
/// How many clock bounds are taken off the validity of a lease: one node may be early and another late.
/// `acquire.lua` has the same number.
pub(crate) const MARGIN_BOUNDS: u32 = 2;
/// The shortest lease is so many clock bounds, so that as much as the margin is left of it, ...
pub(crate) const SHORTEST_LEASE_BOUNDS: u32 = 4;
/// ... and this for the calls.
pub(crate) const SHORTEST_LEASE_REST: Duration = Duration::from_millis(10);
/// The longest lease is at least so many clock bounds: leases between the two are then of use.
pub(crate) const LONGEST_LEASE_BOUNDS: u32 = 8;
/// For how long a precise reading of a node's clock is better than a new one: clocks drift.
pub(crate) const SPAN_KEPT: Duration = Duration::from_secs(10);

// How long a call waits for a node.

/// How long connecting and a command may take, by default.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);
/// By default, a call waits for a node for this part of the lease, ...
pub(crate) const NODE_WAIT_PART: u32 = 100;
/// ... at least so long, which a node nearby does not need, ...
pub(crate) const SHORTEST_NODE_WAIT: Duration = Duration::from_millis(5);
/// ... and at most so long.
pub(crate) const LONGEST_NODE_WAIT: Duration = Duration::from_millis(50);
/// How long an operator's question waits for a node, at least.
pub(crate) const ADMIN_WAIT: Duration = Duration::from_secs(1);
/// How many times as long a round waits, once, where more than a minority is silent: then the trouble is rather in
/// this process or its network, and without a majority nothing can be done anyway.
pub(crate) const PATIENCE: u32 = 10;
/// How many times as long as an operator's question a client waits for a majority when it connects.
pub(crate) const CONNECT_WAITS: u32 = 60;
/// How long a client that has connected to a majority waits for the rest.
pub(crate) const CONNECT_REST: Duration = Duration::from_millis(250);
/// How much longer than for one call a client waits for its tasks when it closes.
pub(crate) const CLOSE_REST: Duration = Duration::from_millis(100);

// Trying again.

/// The first and the longest pause between probes of a node that is not waited for.
pub(crate) const PROBE_PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
/// The first and the longest pause between calls that free a lock in the background.
pub(crate) const FREE_PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];
/// How often an attempt is made, where votes were split or too little was known of the clocks.
pub(crate) const TRIES: u32 = 10;
/// The longest pause before the second try of an attempt; it doubles with each of the next ...
pub(crate) const SPLIT_PAUSE: Duration = Duration::from_millis(2);
/// ... tries, so many times.
pub(crate) const SPLIT_DOUBLINGS: u32 = 5;

// How often a waiter asks.

/// Behind the end of the lease, a waiter asks so much later for each waiter before it, ...
pub(crate) const POLL_STEP: Duration = Duration::from_millis(10);
/// ... of which so many count.
pub(crate) const POLL_STEPS: u64 = 50;
/// From this place on a waiter is far back, and asks less often.
pub(crate) const FAR_PLACE: u64 = 8;
/// The longest pause of a waiter near the head of the queue.
pub(crate) const NEAR_POLL: Duration = Duration::from_millis(500);
/// The longest pause of a waiter further back, or without a place.
pub(crate) const FAR_POLL: Duration = Duration::from_secs(1);
/// The pauses, in microseconds, where no client has a majority: others try, too, and the first to come back may get
/// all votes.
pub(crate) const UNHELD_POLL_MICROS: std::ops::Range<u64> = 1_000..21_000;
/// How long a waiter that one node has called waits for a majority to call it.
pub(crate) const CALL_GRACE: Duration = Duration::from_millis(5);
/// How long a place lives without a word of its waiter: `LIFE_US` of the scripts.
pub(crate) const PLACE_LIFE: Duration = Duration::from_secs(3);

// How much goes into one call: a script stops the whole server while it runs.

/// How many grants one script renews.
pub(crate) const RENEWALS_PER_CALL: usize = 200;
/// How many names one script looks at.
pub(crate) const NAMES_PER_CALL: usize = 200;
/// How attempts and releases go together. Each batch is one call to every node, so that only a task that finds
/// no other about goes alone.
pub(crate) const BATCH_POLICY: BatchPolicy =
    BatchPolicy { most: 100, batches: 2, alone_beside_batches: false, lets_others_in: true };

// What nodes remember.

/// How long a node remembers an abandoned owner: longer than any request is under way.
pub(crate) const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);
/// How many watermarks a node keeps. Names that share one only cost each other a round trip now and then. A part of the
/// protocol between clients; `highest.lua` and Redis's `init.lua` have the same number.
pub(crate) const WATERMARKS: u64 = 1024;
