//! The numbers of this crate that a developer may want to tune, each with its reason.
//!
//! How long a tombstone, a place in the queue and a claim window live is in `scripts/limits.lua`: the scripts count
//! these. How many buckets a cluster has ([`CLUSTER_BUCKETS`](crate::keys::CLUSTER_BUCKETS)) is part of the stored
//! keys and can never change.

use std::time::Duration;

use crate::batching::BatchPolicy;

// Settings of a client.

/// The shortest lease: below it a renewal would come too late on any network.
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(10);
/// The longest lease, and the longest `failover_margin`: a crashed holder blocks its lock for no longer than a week.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(7 * 24 * 3600);
/// `timeout`: the time limit of a command, and of connecting.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// The range of `timeout`.
pub(crate) const TIMEOUTS: (Duration, Duration) =
    (Duration::from_millis(1), Duration::from_secs(3600));
/// `wait_timeout`: replicas of a healthy master answer within milliseconds. While it is waited, nothing else is answered
/// on the connection.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_millis(500);
/// `late_after`: longer than a request waits in any socket or queue of a server that answers again.
pub(crate) const LATE_AFTER: Duration = Duration::from_secs(30);
/// The range of `late_after`. Tombstones live for 60 s (`TOMB_MS` in `scripts/limits.lua`), which has to be longer.
pub(crate) const LATE_AFTERS: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_secs(50));

// Handshakes and connections.

/// A grant never rests on a handshake older than this.
pub(crate) const CONFIRMED_WITHIN: Duration = Duration::from_secs(3);
/// How often the handshake is confirmed in the background, and a sentinel asked: two may fail before a grant has to
/// wait for one ([`CONFIRMED_WITHIN`]).
pub(crate) const CONFIRM_EVERY: Duration = Duration::from_secs(1);
/// How many bytes, and how many parts, the one answer before the login may have: it says who the server is.
pub(crate) const ANSWER_BEFORE_LOGIN: (u64, u64) = (64 << 10, 1_000);
/// The same after the login: the longest that we ask for is a list of all keys of a slot.
pub(crate) const ANSWER: (u64, u64) = (64 << 20, 1_000_000);
/// How deep an answer may be nested: the redis crate reads no deeper.
pub(crate) const DEEPEST_ANSWER: usize = 100;
/// The longest line of an answer: the redis crate reads a line from its beginning each time that more of it comes. Long
/// texts are no lines.
pub(crate) const LONGEST_LINE: usize = 64 << 10;

// Discovery.

/// How long the other sentinels or nodes are waited for after the first has answered: they answer at about the same
/// time, unless they are down.
pub(crate) const OTHER_ANSWERS: Duration = Duration::from_millis(100);
/// How long one sentinel is waited for before the next is asked, where any will do.
pub(crate) const SENTINEL_PATIENCE: Duration = Duration::from_secs(1);
/// How many nodes of a cluster are asked for its map at once: a large cluster is not asked as a whole.
pub(crate) const NODES_ASKED_AT_ONCE: usize = 6;
/// How often a command is sent on before the cluster is taken to be in disorder.
pub(crate) const REDIRECTS: u32 = 8;
/// The first pause while a slot is on the move; each is twice the one before, up to [`LONGEST_PAUSE`].
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest pause while a slot is on the move.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// How often a script that may grant is sent to a server that has changed its role or its clock meanwhile.
pub(crate) const EPOCH_TRIES: u32 = 4;

// Failover.

/// A master counts the lag of its replicas in whole seconds, once a second: it is up to 2 s behind.
pub(crate) const LAG_COUNTED_BY: Duration = Duration::from_secs(2);
/// A node looks after its cluster ten times a second; ten such rounds are enough on a busy machine.
pub(crate) const CLUSTER_CRON: Duration = Duration::from_secs(1);

// Guarantees of waiting.

/// A lock that was handed over and not claimed lives for its claim window of 2 s (`CLAIM_MS` in `scripts/limits.lua`),
/// whatever its lease; Redis removes expired keys within 100 ms.
pub(crate) const EXPIRY_SLACK: Duration = Duration::from_millis(2_100);
/// A waiter asks again at least this often, also where no push comes.
pub(crate) const LONGEST_POLL: Duration = FAR_HEARTBEAT;
/// How often a place near the head of a queue is heard of, and one far from it (`NEAR_MS` and `FAR_MS` in
/// `scripts/limits.lua`): two heartbeats of a far one fall into a place's life.
pub(crate) const NEAR_HEARTBEAT: Duration = Duration::from_millis(800);
pub(crate) const FAR_HEARTBEAT: Duration = Duration::from_millis(1250);
/// A client's heartbeats are due at multiples of this: fewer calls for those of many names, more at a time.
pub(crate) const HEARTBEAT_STEP: Duration = Duration::from_millis(200);
/// How often a heartbeat looks at the lock too, and so at who holds it, where the lease does not end before: a look costs
/// the server as much as three heartbeats. The queue's key may live for 20 s less than this looks at.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(6);
/// A place lives for so long after it was last heard of (`LIFE_US` in `scripts/limits.lua`).
pub(crate) const PLACE_LIFE: Duration = Duration::from_secs(3);
/// A place lives for 3 s after it was last heard of, and a claim window takes 2 s.
pub(crate) const DEAD_PLACE_DELAY: Duration = Duration::from_secs(5);

// How much goes together. A script holds the whole server up while it runs.

/// Renewals in one script call.
pub(crate) const RENEWALS: usize = 200;
/// How many keys one step of a listing looks at.
pub(crate) const LISTED_AT_ONCE: usize = 200;
/// The same for a listing of one node of several, whose caller asks for the states of the names found.
pub(crate) const LISTED_OF_NODE: usize = 500;
/// How many keys of a slot are listed above their count, for those that come meanwhile.
pub(crate) const KEYS_MEANWHILE: u64 = 1000;
/// How often a listing of a slot begins anew, when the slot has moved meanwhile.
pub(crate) const LISTING_TRIES: u32 = 3;
/// When attempts and releases go together: a call of its own costs no more than a small batch.
pub(crate) const BATCHES: BatchPolicy =
    BatchPolicy { most: 100, batches: 4, alone_beside_batches: true, lets_others_in: false };
/// When heartbeats go together: they never go alone. One batch after the other, so that others come in between.
pub(crate) const HEARTBEATS: BatchPolicy =
    BatchPolicy { most: 200, batches: 1, alone_beside_batches: false, lets_others_in: true };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_count_the_same_limits() {
        let limits = include_str!("scripts/limits.lua");
        let (near, far) = (NEAR_HEARTBEAT.as_millis(), FAR_HEARTBEAT.as_millis());
        assert!(limits.contains(&format!("local NEAR, NEAR_MS, FAR_MS = 8, {near}, {far}\n")));
        assert!(limits.contains(&format!("local LIFE_US = {}\n", PLACE_LIFE.as_micros())));
    }
}
