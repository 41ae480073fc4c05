//! The numbers of this crate that a developer may want to tune, each with its reason.
//!
//! `scripts/tunables.lua` has the lives of tombstones and queue entries and the claim window, since
//! the scripts use them. The number of a cluster's buckets
//! ([`CLUSTER_BUCKETS`](crate::keys::CLUSTER_BUCKETS)) is part of the stored keys and can never
//! change.

use std::time::Duration;

use crate::batching::BatchPolicy;

// Settings of a client.

/// The shortest lease. With a shorter one, renewals would come too late on any network.
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(10);
/// The longest lease, and the longest `failover_margin`: a crashed holder blocks its lock for at
/// most a week.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(7 * 24 * 3600);
/// `timeout`: the time limit of a command, and of connecting.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// The range of `timeout`.
pub(crate) const TIMEOUTS: (Duration, Duration) =
    (Duration::from_millis(1), Duration::from_secs(3600));
/// `wait_timeout`: replicas of a healthy master answer within milliseconds. During the wait the
/// connection gives no other answer.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_millis(500);
/// `late_after`: longer than a request can wait in a socket or queue of a server that answers
/// again.
pub(crate) const LATE_AFTER: Duration = Duration::from_secs(30);
/// The range of `late_after`. Tombstones live for 60 s (`TOMB_MS` in `scripts/tunables.lua`), which
/// must be longer.
pub(crate) const LATE_AFTERS: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_secs(50));

// Handshakes and connections.

/// No grant relies on a handshake older than this.
pub(crate) const CONFIRMED_WITHIN: Duration = Duration::from_secs(3);
/// How often the handshake is repeated in the background, and a sentinel asked. Two may fail before
/// a grant has to wait for one ([`CONFIRMED_WITHIN`]).
pub(crate) const CONFIRM_EVERY: Duration = Duration::from_secs(1);
/// After how long without a byte on a connection that waits for an answer the client tries a new
/// one. Longer than a healthy server is busy with one script.
pub(crate) const SILENT_AFTER: Duration = Duration::from_secs(1);
/// The limit in bytes, and in parts, of the one answer before the login, which describes the
/// server.
pub(crate) const ANSWER_BEFORE_LOGIN: (u64, u64) = (64 << 10, 1_000);
/// The same after the login. The longest answer is a list of all keys of a slot.
pub(crate) const ANSWER: (u64, u64) = (64 << 20, 1_000_000);
/// How deep an answer may be nested. The redis crate reads no deeper.
pub(crate) const DEEPEST_ANSWER: usize = 100;
/// The longest line of an answer. The redis crate reads a line again from its beginning each time
/// that more of it arrives. Long texts are not lines.
pub(crate) const LONGEST_LINE: usize = 64 << 10;

// Discovery.

/// After the first sentinel or node has answered, how long the client waits for the others. They
/// answer at about the same time, unless they are down.
pub(crate) const OTHER_ANSWERS: Duration = Duration::from_millis(100);
/// How long the client waits for one sentinel before it asks the next, if any sentinel will do.
pub(crate) const SENTINEL_TIMEOUT: Duration = Duration::from_secs(1);
/// How many nodes of a cluster the client asks for the map at once. It does not ask all nodes of a
/// large cluster.
pub(crate) const NODES_ASKED_AT_ONCE: usize = 6;
/// How many redirects a command follows. After that the cluster is taken to be in disorder.
pub(crate) const REDIRECTS: u32 = 8;
/// The first pause while a slot is moving. Each further pause is twice as long, up to
/// [`LONGEST_PAUSE`].
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest pause while a slot is moving.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// How often a script that may grant is sent to a server that keeps changing its role or its clock.
pub(crate) const EPOCH_TRIES: u32 = 4;
/// A client that finds another's candidate for a first use asks again after this. The other client
/// needs three more round trips.
pub(crate) const CANDIDATE_PAUSE: Duration = Duration::from_millis(5);
/// How often it asks. The candidate of a client that has died is replaced after a second (in
/// `scripts/first_use.lua`).
pub(crate) const CANDIDATE_TRIES: u32 = 400;

// Failover.

/// A master counts the lag of its replicas in whole seconds, once a second. So its count is up to 2
/// s old.
pub(crate) const LAG_COUNTED_BY: Duration = Duration::from_secs(2);
/// A node checks its cluster ten times a second. Ten such checks are enough also on a busy machine.
pub(crate) const CLUSTER_CRON: Duration = Duration::from_secs(1);

// Guarantees of waiting.

/// A lock that a handoff gave and nobody claimed lives for its claim window of 2 s (`CLAIM_MS` in
/// `scripts/tunables.lua`), whatever its lease. Redis removes expired keys within 100 ms.
pub(crate) const EXPIRY_SLACK: Duration = Duration::from_millis(2_100);
/// A waiter asks again at least this often, also without a push.
pub(crate) const LONGEST_POLL: Duration = FAR_HEARTBEAT;
/// The interval of heartbeats of a queue entry near the head, and of one far from it (`NEAR_MS` and
/// `FAR_MS` in `scripts/tunables.lua`). An entry's life has time for two heartbeats of a far entry.
pub(crate) const NEAR_HEARTBEAT: Duration = Duration::from_millis(800);
pub(crate) const FAR_HEARTBEAT: Duration = Duration::from_millis(1250);
/// A client's heartbeats are due at multiples of this, so that many names need fewer calls with
/// more heartbeats in each.
pub(crate) const HEARTBEAT_STEP: Duration = Duration::from_millis(200);
/// How often a heartbeat also reads the lock and its holder, if the lease does not end before.
/// Reading costs the server as much as three heartbeats. It also checks the life of the queue's
/// key, which may be 20 s shorter than the entries'.
pub(crate) const LOCK_READ_AGAIN: Duration = Duration::from_secs(6);
/// How long an entry lives after its last heartbeat (`LIFE_US` in `scripts/tunables.lua`).
pub(crate) const ENTRY_LIFE: Duration = Duration::from_secs(3);
/// An entry lives for 3 s after its last heartbeat, and a claim window takes 2 s.
pub(crate) const DEAD_ENTRY_DELAY: Duration = Duration::from_secs(5);

// How many calls share a script. A script holds up the whole server while it runs.

/// Renewals in one script call.
pub(crate) const RENEWALS: usize = 200;
/// How many keys one step of a listing reads.
pub(crate) const LISTED_AT_ONCE: usize = 200;
/// The same for one node of several. The caller then asks for the states of the names found.
pub(crate) const LISTED_OF_NODE: usize = 500;
/// How many more keys of a slot are listed than were counted, for keys that are made meanwhile.
pub(crate) const KEYS_MEANWHILE: u64 = 1000;
/// How often a listing of a slot begins again if the slot has moved meanwhile.
pub(crate) const LISTING_TRIES: u32 = 3;
/// When attempts and releases share a batch: a single call costs no more than a small batch.
pub(crate) const BATCHES: BatchPolicy =
    BatchPolicy { most: 100, batches: 4, alone_beside_batches: true, lets_others_in: false };
/// When heartbeats share a batch: they are never sent alone. One batch is sent after the other, so
/// that other calls come between.
pub(crate) const HEARTBEATS: BatchPolicy =
    BatchPolicy { most: 200, batches: 1, alone_beside_batches: false, lets_others_in: true };

#[cfg(test)]
mod tests {
    use lock_core::Mode;

    use super::*;

    #[test]
    fn the_scripts_have_the_same_numbers() {
        let tunables = include_str!("scripts/tunables.lua");
        let (near, far) = (NEAR_HEARTBEAT.as_millis(), FAR_HEARTBEAT.as_millis());
        assert!(tunables.contains(&format!("local NEAR, NEAR_MS, FAR_MS = 8, {near}, {far}\n")));
        assert!(tunables.contains(&format!("local LIFE_US = {}\n", ENTRY_LIFE.as_micros())));
        assert!(tunables.contains(&format!("local MOST_READERS = {}\n", Mode::MOST_READERS)));
    }
}
