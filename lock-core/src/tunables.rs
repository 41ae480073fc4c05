//! The numbers of the core that could be others, each with its reason.

use std::time::Duration;

// The client's options where none are given.

/// The lease of a lock that does not name its own: a crash is noticed within seconds, and a busy process is not late
/// with three renewals in a row.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(10);

/// How long a caller waits for one answer: longer than a healthy store ever takes, shorter than a caller gives up.
pub(crate) const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest lease of a store where none was set: a quarantine after a loss of data lasts as long.
pub(crate) const DEFAULT_LONGEST_LEASE: Duration = Duration::from_secs(30);

/// How many held names are listed at most, since a list is kept in memory: some 200 bytes each.
pub(crate) const MOST_LISTED: usize = 1_000_000;

/// How many readers share one lock at most: the store keeps an id of each, and reads them all to change one. Those that
/// crashed count until the last of the others has left.
pub(crate) const MOST_READERS: usize = 1_000;

// Validity.

/// A holder believes a lease for this part less: its clock and the store's may run at rates 1% apart.
pub(crate) const DRIFT_PART: u32 = 100;

/// And for this less: the rounding of stores that count milliseconds.
pub(crate) const ROUNDING: Duration = Duration::from_millis(2);

/// How often a timer that a suspend delays looks at the clock.
pub(crate) const LONGEST_SLICE: Duration = Duration::from_secs(1);

// Renewal, as parts of the lease.

/// A lock is renewed after a quarter to a third of its lease, so that two attempts may fail.
pub(crate) const RENEWAL_PART: u32 = 3;

/// What is due within this part of a lease goes along with what is due now: one call in place of several.
pub(crate) const SAME_BATCH_PART: u32 = 24;

/// A renewal that has no answer by then is sent again beside the first.
pub(crate) const LOOK_AGAIN_PART: u32 = 6;

/// The pause after a renewal that failed.
pub(crate) const RENEWAL_RETRY_PART: u32 = 20;

/// When so little of the validity is left, renewal counts as failing: two thirds of it are over, so that at least one
/// renewal has failed, and the holder has a third of it to stop in.
pub(crate) const FAILING_PART: u32 = 3;

/// A pushed grant is confirmed after this part of its validity: early, but not before a lock that is held for a
/// moment is released.
pub(crate) const CONFIRM_PART: u32 = 16;

// Repeats.

/// The first pause before a call is repeated; it doubles with each repeat.
pub(crate) const SHORTEST_RETRY_PAUSE: Duration = Duration::from_millis(5);

/// The longest pause before a call is repeated: a store that comes back is found within a second.
pub(crate) const LONGEST_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The shortest pause between polls, whatever the store says: it may count its leases more coarsely than its answers.
pub(crate) const SHORTEST_POLL_PAUSE: Duration = Duration::from_millis(1);

/// A waiter's place is given up when a question of it has no answer after so many time limits of a call. The callers' own
/// waits end as they say; but a client that loses its place goes to the end of the queue, and on a busy store it would lose the
/// next one, too.
pub(crate) const CALLS_PER_QUESTION: u32 = 3;

// The wait for the end of a quarantine.

/// The longest pause between attempts: an operator may end a quarantine early.
pub(crate) const LONGEST_QUARANTINE_PAUSE: Duration = Duration::from_secs(1);

/// The shortest pause: a store may count a quarantine more coarsely than it answers.
pub(crate) const SHORTEST_QUARANTINE_PAUSE: Duration = Duration::from_millis(10);

/// A quarantine may last longer than the store said by this: etcd counts whole seconds, and ends a lease late.
pub(crate) const QUARANTINE_COARSENESS: Duration = Duration::from_secs(2);

// The check of a store.

/// How often it is asked: a first call may have to connect, and one may be late by chance.
pub(crate) const ROUND_TRIPS: usize = 5;

/// A store that takes longer is told to be slow: renewals of the default lease then have a few tries only.
pub(crate) const SLOW_ROUND_TRIP: Duration = Duration::from_millis(500);

/// A clock that is off by more is told: after a loss of data tokens rely on the clocks.
pub(crate) const LARGE_CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

// Semaphores and elections.

/// The most permits of a semaphore: a wait asks for each slot, and more holders than this are a rate limiter's job.
pub(crate) const MOST_PERMITS: u32 = 128;

/// So many slots are tried before a client waits: with half of them free, three of four clients find one.
pub(crate) const PROBES: u32 = 2;

/// The longest lease of a semaphore's door: so long a client that crashed there delays those behind it. Shorter, and
/// one that waits there for long would renew it more often.
pub(crate) const DOOR_LEASE: Duration = Duration::from_secs(3);

/// The pause after leadership was lost, or the store failed, before the next candidacy: others go first.
pub(crate) const ELECTION_PAUSE: Duration = Duration::from_secs(1);

/// The shortest interval of looking who leads: more often is a load on the store and no news.
pub(crate) const SHORTEST_WATCH: Duration = Duration::from_millis(10);

/// The longest one, so that a mistaken unit is noticed.
pub(crate) const LONGEST_WATCH: Duration = Duration::from_secs(3_600);

/// Those of the store in memory.
pub(crate) mod memory {
    use std::time::Duration;

    /// How often a place must be heard of; a poll of its owner is its heartbeat.
    pub(crate) const HEARTBEAT: Duration = Duration::from_millis(500);

    /// So many places at the head of a queue are heard of that often.
    pub(crate) const NEAR: usize = 8;

    /// And those behind them more seldom, since none of them is the next to be served.
    pub(crate) const FAR_HEARTBEAT: Duration = Duration::from_secs(1);

    /// A place that was not heard of for this long is passed over: three heartbeats of a far one.
    pub(crate) const PLACE_LIFE: Duration = Duration::from_secs(3);

    /// How long an abandoned owner is remembered: longer than any attempt is on its way.
    pub(crate) const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);

    /// How long a handed-over lock waits for its new owner's first renewal.
    pub(crate) const CLAIM: Duration = Duration::from_secs(2);

    /// When a waiter asks again that a test's store has refused.
    #[cfg(feature = "testing")]
    pub(crate) const REFUSED_FOR: Duration = Duration::from_millis(100);

    /// The shortest lease: below it the drift margin leaves little.
    pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(10);

    /// The shortest pause that a waiter is told.
    pub(crate) const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

    /// How late an expired lease may be noticed: by the delay of a waiter's timer.
    pub(crate) const EXPIRY_SLACK: Duration = Duration::from_millis(20);

    /// With fewer names than this nothing is swept.
    pub(crate) const FEW_NAMES: usize = 64;
}
