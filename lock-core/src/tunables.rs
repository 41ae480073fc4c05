//! The constants of the core that a developer may want to tune, with their reasons.

use std::time::Duration;

// Defaults.

/// The lease of a lock. A crash is noticed within seconds, and a busy process does not miss three
/// renewals in a row.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_secs(10);

/// How long a caller waits for one answer: longer than a healthy store ever takes, shorter than the
/// patience of a caller.
pub(crate) const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest lease of a new store. A quarantine after a loss of data lasts as long.
pub(crate) const DEFAULT_LONGEST_LEASE: Duration = Duration::from_secs(30);

/// The most held names in one listing, which is kept in memory: about 200 bytes for each name.
pub(crate) const MOST_LISTED: usize = 1_000_000;

/// The most readers of one lock. The store keeps an id of each, and reads them all to change one.
/// When a crashed reader stops counting is in `docs/readers-and-writers.md`.
pub(crate) const MOST_READERS: usize = 1_000;

// Records.

/// The most bytes of a record: enough for times, an exit code and an address. A store reads and
/// writes it beside its locks, so it must stay as small as they are.
pub(crate) const LARGEST_RECORD: usize = 1_024;

/// The shortest time for which a record is kept: Redis counts milliseconds, etcd seconds.
pub(crate) const SHORTEST_KEPT: Duration = Duration::from_secs(1);

/// The longest one, 10 years, so that a wrong unit is noticed.
pub(crate) const LONGEST_KEPT: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

// Once per period.

/// The next round of a job may begin this part of its period early: cron and timers start a job a
/// little earlier or later each time, and must not skip a day.
pub(crate) const TOLERANCE_PART: u32 = 10;

/// But at most this much early: with long periods, jitter is no reason for more.
pub(crate) const LONGEST_TOLERANCE: Duration = Duration::from_secs(3_600);

/// The store keeps the record of a run for this many periods, so that a period that is raised
/// later, up to twice as long, still finds it.
pub(crate) const KEPT_PERIODS: u32 = 2;

/// But at least this long: the period may be raised by more. It is longer than a month, so that the
/// first run of a monthly job is due, and not taken for a run that the store has forgotten. It is
/// not much longer, so that names which nobody uses again do not stay.
pub(crate) const RUNS_KEPT: Duration = Duration::from_secs(40 * 24 * 3_600);

/// The shortest period. A job that runs more often needs no store to remember it.
pub(crate) const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// The longest one, a year of 365.25 days, so that a wrong unit is noticed.
pub(crate) const LONGEST_PERIOD: Duration = Duration::from_secs(31_557_600);

// Latches.

/// How often a client that waits for a latch reads it: nobody is told of a record.
pub(crate) const LATCH_POLL: Duration = Duration::from_secs(1);

/// How long the store keeps a latch after its last count, so that old latches do not fill the
/// store.
pub(crate) const LATCH_KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);

// Validity.

/// The part of a lease that a holder subtracts: the rates of its clock and the store's clock may
/// differ by 1%.
pub(crate) const DRIFT_PART: u32 = 100;

/// Subtracted in addition, for the rounding of stores that count milliseconds.
pub(crate) const ROUNDING: Duration = Duration::from_millis(2);

/// How often a wait checks the clock, if a suspend delays its timer.
pub(crate) const CLOCK_CHECK: Duration = Duration::from_secs(1);

// Renewal, as parts of the lease.

/// The client renews a lock after a quarter to a third of its lease, so that two renewals may fail.
/// `RENEW_AFTER` in `backend-migration` states the same rule.
pub(crate) const RENEWAL_PART: u32 = 3;

/// Locks that are due within this part of their lease are renewed in the same call as those that
/// are due now.
pub(crate) const SAME_BATCH_PART: u32 = 24;

/// A renewal without an answer after this part of the lease is sent again.
pub(crate) const RESEND_PART: u32 = 6;

/// The pause after a failed renewal.
pub(crate) const RENEWAL_RETRY_PART: u32 = 20;

/// While the renewals of a lock fail, the log has at most one line about it per this part of the
/// lease.
pub(crate) const FAILURE_LINE_PART: u32 = 4;

/// When less than this part of the validity is left, renewal counts as failing. Two thirds are over
/// then, so at least one renewal has failed, and the holder has a third to stop its work.
pub(crate) const FAILING_PART: u32 = 3;

/// The client confirms a pushed grant after this part of its validity: early, but not before a lock
/// that is held only for a moment is released.
pub(crate) const CONFIRM_PART: u32 = 16;

// Retries.

/// The first pause before a retry. It doubles with each retry.
pub(crate) const SHORTEST_RETRY_PAUSE: Duration = Duration::from_millis(5);

/// The longest pause before a retry: the client notices within a second that the store is back.
pub(crate) const LONGEST_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The shortest pause between polls, even if the store says less: it may count leases more coarsely
/// than it answers.
pub(crate) const SHORTEST_POLL_PAUSE: Duration = Duration::from_millis(1);

/// A call for a queue entry may take this many `call_timeout`s before the client gives the entry
/// up. A client that loses its entry goes to the end of the queue, and on a busy store it would
/// lose the next entry, too. The callers' own waits are not affected.
pub(crate) const CALL_TIMEOUTS_PER_POLL: u32 = 3;

// The wait for the end of a quarantine.

/// The longest pause between attempts: an operator may end a quarantine early.
pub(crate) const LONGEST_QUARANTINE_PAUSE: Duration = Duration::from_secs(1);

/// The shortest pause: a store may count a quarantine more coarsely than it answers.
pub(crate) const SHORTEST_QUARANTINE_PAUSE: Duration = Duration::from_millis(10);

/// A quarantine may last this much longer than the store says: etcd counts whole seconds, and ends
/// a lease late.
pub(crate) const QUARANTINE_COARSENESS: Duration = Duration::from_secs(2);

/// If a store's unknown error comes again after a longer pause than this and than the longest
/// lease, it counts as a new one. Callers that retry ask much more often.
pub(crate) const UNKNOWN_ERRORS_APART: Duration = Duration::from_secs(10);

// The check of a store.

/// How many calls are measured: the first may have to connect, and any call may be slow by chance.
pub(crate) const ROUND_TRIPS: usize = 5;

/// Above this round trip the check warns: renewals of the default lease then have only a few tries.
pub(crate) const SLOW_ROUND_TRIP: Duration = Duration::from_millis(500);

/// Above this difference of clocks the check warns: after a loss of data, tokens rely on the
/// clocks.
pub(crate) const LARGE_CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

// Semaphores and elections.

/// The most permits of a semaphore: a waiter waits for every slot. For more holders use a rate
/// limiter.
pub(crate) const MOST_PERMITS: u32 = 128;

/// How many slots a client tries before it waits. If half of the slots are free, three of four
/// clients find one.
pub(crate) const PROBES: u32 = 2;

/// The longest lease of a semaphore's door: how long a client that crashed there delays those
/// behind it. With a shorter lease, a client that waits there would renew more often.
pub(crate) const DOOR_LEASE: Duration = Duration::from_secs(3);

/// The pause of a candidate that has lost leadership, or whose store has failed, so that others go
/// first.
pub(crate) const ELECTION_PAUSE: Duration = Duration::from_secs(1);

/// The shortest interval of a leadership watch: a shorter one only loads the store.
pub(crate) const SHORTEST_WATCH: Duration = Duration::from_millis(10);

/// The longest one, so that a wrong unit is noticed.
pub(crate) const LONGEST_WATCH: Duration = Duration::from_secs(3_600);

/// The version of the serialized form of a detached lock.
pub(crate) const DETACHED_VERSION: u32 = 1;

/// Constants of the store in memory.
pub(crate) mod memory {
    use std::time::Duration;

    /// The interval of heartbeats of a queue entry. A poll of its owner is its heartbeat.
    pub(crate) const HEARTBEAT: Duration = Duration::from_millis(500);

    /// How many entries at the head of a queue send heartbeats that often.
    pub(crate) const NEAR_ENTRIES: usize = 8;

    /// The interval for the entries behind them, none of which is the next to be served.
    pub(crate) const FAR_HEARTBEAT: Duration = Duration::from_secs(1);

    /// An entry without a heartbeat for this long is dropped: three heartbeats of a far entry.
    pub(crate) const ENTRY_LIFE: Duration = Duration::from_secs(3);

    /// How long a tombstone stays: longer than any attempt is on its way.
    pub(crate) const TOMBSTONE_LIFE: Duration = Duration::from_secs(60);

    /// How long a lock that was handed over waits for its new owner's first renewal.
    pub(crate) const CLAIM_WINDOW: Duration = Duration::from_secs(2);

    /// When a waiter polls again after a test's store has refused it.
    #[cfg(feature = "testing")]
    pub(crate) const REFUSED_RETRY: Duration = Duration::from_millis(100);

    /// The shortest lease: of a shorter one the drift margin leaves too little.
    pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(10);

    /// The shortest `retry_after`.
    pub(crate) const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

    /// How late the store may notice an expired lease: the delay of a waiter's timer.
    pub(crate) const EXPIRY_SLACK: Duration = Duration::from_millis(20);

    /// With fewer names than this the store does not sweep.
    pub(crate) const FEW_NAMES: usize = 64;
}
