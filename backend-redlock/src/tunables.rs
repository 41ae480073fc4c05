//! The numbers of this crate that a developer may want to tune, each with its reason.
//!
//! Some numbers are in the scripts that use them: `TURN_US` in `acquire.lua` and `free.lua`;
//! `LIFE_US`, `TOMB_MS` and `MOST_READERS` in `tunables.lua` of `backend-redis`.

use std::{ops::RangeInclusive, time::Duration};

use backend_redis::batching::BatchPolicy;

// Clocks.

/// The default of how far a node's clock may be from the median. NTP keeps it far closer, even on a
/// bad day.
pub(crate) const CLOCK_BOUND: Duration = Duration::from_millis(100);
/// The clock bounds that a client may set.
pub(crate) const CLOCK_BOUNDS: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(60);
/// How many clock bounds are taken off the validity of a lease: one node may be early and another
/// late. `acquire.lua` has the same number.
pub(crate) const MARGIN_BOUNDS: u32 = 2;
/// The shortest lease is this many clock bounds, so that as much as the margin is left of it, ...
pub(crate) const SHORTEST_LEASE_BOUNDS: u32 = 4;
/// ... plus this much for the calls.
pub(crate) const SHORTEST_LEASE_REST: Duration = Duration::from_millis(10);
/// The longest lease is at least this many clock bounds, so that there is a useful range of leases.
pub(crate) const LONGEST_LEASE_BOUNDS: u32 = 8;
/// How long a precise reading of a node's clock is preferred to a new one. Clocks drift, so not for
/// ever.
pub(crate) const SPAN_KEPT: Duration = Duration::from_secs(10);

// How long a call waits for a node.

/// The default time limit of connecting and of a command.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);
/// By default, a call waits for a node for this part of the lease, ...
pub(crate) const NODE_WAIT_PART: u32 = 100;
/// ... at least this long, which is more than a near node needs, ...
pub(crate) const SHORTEST_NODE_WAIT: Duration = Duration::from_millis(5);
/// ... and at most this long.
pub(crate) const LONGEST_NODE_WAIT: Duration = Duration::from_millis(50);
/// The least time that a call of an operator waits for a node.
pub(crate) const ADMIN_WAIT: Duration = Duration::from_secs(1);
/// How many times as long a round waits, once, if more than a minority is silent. Then the trouble
/// is more likely in this process or its network, and without a majority nothing can be done
/// anyway.
pub(crate) const SILENCE_FACTOR: u32 = 10;
/// How many times `ADMIN_WAIT` a connecting client waits for a majority.
pub(crate) const CONNECT_WAITS: u32 = 60;
/// How long a client that has connected to a majority waits for the other nodes.
pub(crate) const CONNECT_REST: Duration = Duration::from_millis(250);
/// How much longer than a call `close` waits for background tasks.
pub(crate) const CLOSE_REST: Duration = Duration::from_millis(100);

// Retries.

/// The first and the longest pause between probes of a node for which no call waits.
pub(crate) const PROBE_PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
/// The first and the longest pause between calls that free a lock in the background.
pub(crate) const FREE_PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];
/// How often an attempt is made if votes were split or too little was known of the clocks.
pub(crate) const TRIES: u32 = 10;
/// The longest pause before the second try of an attempt. It doubles with each of the next ...
pub(crate) const SPLIT_PAUSE: Duration = Duration::from_millis(2);
/// ... tries, this many times.
pub(crate) const SPLIT_DOUBLINGS: u32 = 5;

// How often a waiter asks.

/// After the end of the lease, a waiter asks this much later for each waiter before it, ...
pub(crate) const POLL_STEP: Duration = Duration::from_millis(10);
/// ... of which at most this many count.
pub(crate) const POLL_STEPS: u64 = 50;
/// From this position on a waiter is far back, and asks less often.
pub(crate) const FAR_POSITION: u64 = 8;
/// The longest pause of a waiter near the head of the queue.
pub(crate) const NEAR_POLL: Duration = Duration::from_millis(500);
/// The longest pause of a waiter further back, or without a queue entry.
pub(crate) const FAR_POLL: Duration = Duration::from_secs(1);
/// The pauses, in microseconds, if no client has a majority. Others try too, and the first to come
/// back may get all votes.
pub(crate) const UNHELD_POLL_MICROS: std::ops::Range<u64> = 1_000..21_000;
/// How long a waiter that one node has called waits for a majority to call it.
pub(crate) const CALL_GRACE: Duration = Duration::from_millis(5);
/// How long an entry lives without a heartbeat: `LIFE_US` of the scripts.
pub(crate) const ENTRY_LIFE: Duration = Duration::from_secs(3);

// How many calls share a script. A script holds up the whole server while it runs.

/// How many grants one script renews.
pub(crate) const RENEWALS_PER_CALL: usize = 200;
/// How many names one script reads.
pub(crate) const NAMES_PER_CALL: usize = 200;
/// When attempts and releases share a batch. Each batch is one call to every node, so a task is
/// sent alone only if there are no other tasks.
pub(crate) const BATCH_POLICY: BatchPolicy =
    BatchPolicy { most: 100, batches: 2, alone_beside_batches: false, lets_others_in: true };

// What nodes keep.

/// How long a node keeps the tombstone of an abandoned owner: longer than any request can be on its
/// way.
pub(crate) const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);
/// How many watermarks a node keeps. Names that share one only cost each other a round trip now and
/// then. The number is part of the protocol between clients; `node.lua` and Redis's `init.lua`
/// have the same.
pub(crate) const WATERMARKS: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_count_the_same_life_of_an_entry() {
        let tunables = include_str!("../../backend-redis/src/scripts/tunables.lua");
        assert!(tunables.contains(&format!("local LIFE_US = {}\n", ENTRY_LIFE.as_micros())));
    }
}
