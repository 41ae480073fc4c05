//! The numbers of this crate that a developer may want to tune. Some numbers stand in their
//! statement: how many tombstones are kept (`abandon`); in PostgreSQL also for how long, when a
//! watermark counts (`sweep.sql`), how often a sweep raises it (`sweep_watermark`), and how
//! late a statement may be (`{young}` in `acquire.sql`).

use std::time::Duration;

/// How long a call may take, unless the builder or the URL says otherwise.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// The range of that.
pub(crate) const TIMEOUTS: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(3600)];
/// No store has a longer `longest_lease`: a quarantine would last as long.
pub(crate) const LONGEST_LEASE: Duration = Duration::from_secs(7 * 24 * 3600);
/// The longest prefix of tables, and the longest schema: with what is appended, a name stays below
/// PostgreSQL's 63 bytes.
pub(crate) const LONGEST_NAME: usize = 40;

/// A waiter polls this often besides its checks. In a queue, polls send the heartbeats.
pub(crate) const LONGEST_POLL: Duration = Duration::from_millis(500);
/// With each [`FAR`] others before it a waiter polls by that much more seldom: it is not the next
/// to be served.
pub(crate) const FAR: u32 = 8;
/// The longest pause of that, where a database has no other.
pub(crate) const FAR_POLL: Duration = Duration::from_secs(1);
/// How often a waiter that gets no messages checks, in PostgreSQL. A check takes no write lock.
#[cfg(feature = "postgres")]
pub(crate) const CHECK_PAUSE: Duration = Duration::from_millis(10);
/// The pause after a check that failed.
pub(crate) const CHECK_AFTER_FAILURE: Duration = Duration::from_millis(200);
/// A waiter has a lock that a release granted it for this long, unless it renews the lock: it may
/// have died. Twice the longest poll, since the waiter counts from its last answer.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) const CLAIM_WINDOW: Duration = Duration::from_secs(2);
/// A poll sends a heartbeat if the last one is this old: an entry far back sends one with every
/// second poll. In MySQL the same statement sends those of all entries of the client whose last
/// ones are half as old.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(1_500);
/// The longest pause between two heartbeats of an entry far back, if its client does not stall:
/// until one is due, and until the next poll.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) const FAR_HEARTBEAT: Duration = HEARTBEAT.saturating_add(FAR_POLL);
/// An entry without a heartbeat for this long is dead. The part above [`FAR_HEARTBEAT`] is for a
/// stall.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) const ENTRY_LIFE: Duration = Duration::from_secs(4);
/// An abandoned owner is remembered for so long: far longer than a statement of its can be on its
/// way.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) const REMEMBERED: Duration = Duration::from_secs(3600);
/// A waiter that is not woken, and is the next to be served, checks after this part of the time
/// that the turn before it has taken so far. So it is late by no more than that part.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) const CHECK_PART: u32 = 8;
/// The shortest pause between such checks, and the longest: after 2 s a waiter sends four checks a
/// second, not one every 50 ms, and a lock that was held for that long is granted to a waiter
/// up to 0.25 s later. A waiter with N others before it waits N + 1 times as long.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) const SHORTEST_CHECK_PAUSE: Duration = Duration::from_millis(1);
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) const LONGEST_CHECK_PAUSE: Duration = Duration::from_millis(250);

/// A client sweeps every so many releases and clean-ups, the first time somewhere among them.
pub(crate) const SWEEP_EVERY: u64 = 1_000;
/// A page of a listing has so many locks.
pub(crate) const PAGE: u32 = 200;
/// An attempt reads the row this often if it changes meanwhile.
pub(crate) const TRIES: usize = 3;
/// A client remembers so many names or owners, for each purpose; one that is forgotten costs a
/// round trip or two.
pub(crate) const REMEMBERED_NAMES: usize = 10_000;

/// What follows a batch of renewals takes no longer than this part of a lease, as the core gives an
/// answer, or than it takes to read a row on a busy machine.
pub(crate) const ANSWER_IN: u32 = 6;
pub(crate) const SHORTEST_CHECK: Duration = Duration::from_millis(100);
/// Of that, this part of a lease is for rows that other transactions have locked.
pub(crate) const WAIT_FOR_ROWS: u32 = 12;

/// The longest pause before a statement is repeated that another transaction was in the way of.
/// There is no limit to the number of repeats but the time limit of the call.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(4);
/// A statement may take so much longer than the time limit before it counts as hanging: a refusal
/// just before the end is reported as that.
pub(crate) const GRACE: Duration = Duration::from_millis(500);

/// Connections of a pool of our own, at most: three for attempts, and one each for releases and
/// renewals. See `gate.rs`.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) const CONNECTIONS: u32 = 5;
/// Connections beyond the first that had no statement for so long are closed: servers have few
/// sessions. The first one then returns to the pool.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) const SHRINK: Duration = Duration::from_millis(900);
/// A connection in constant use is replaced at an age between this and twice this, since sessions
/// of a server grow. The driver's default.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) const LIFETIME: Duration = Duration::from_secs(1800);
/// If a statement got no answer for so long, the client tests the connections that nobody has used
/// since. One that gives no answer for as long is dropped.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) const SILENT_AFTER: Duration = Duration::from_secs(1);
/// If the driver has not connected for so long, the client finds out whether a server listens at
/// all. Longer than a handshake with TLS takes, so that a server that answers is asked once.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) const SLOW_TO_CONNECT: Duration = Duration::from_millis(250);
/// A connection that was not used for so long is replaced: firewalls forget such connections, most
/// after 5 minutes or more.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) const IDLE: Duration = Duration::from_secs(240);

#[cfg(feature = "postgres")]
pub(crate) mod postgres {
    use std::time::Duration;

    /// The shortest lease: some round trips on a busy machine.
    pub const SHORTEST_LEASE: Duration = Duration::from_millis(100);
    /// The longest pause between two polls of a waiter: a thousand waiters then poll 140 times a
    /// second.
    pub(crate) const FAR_POLL: Duration = Duration::from_secs(10);
    /// What is free waits so long for the first in the queue.
    pub(crate) const TURN: Duration = Duration::from_secs(1);
    /// The longest pause between checks of a waiter that has others before it and gets no messages:
    /// half a turn.
    pub(crate) const LONGEST_CHECK_PAUSE: Duration = Duration::from_millis(500);
    /// An entry of the queue is dead so long after its next poll is due, and one more pause between
    /// polls.
    pub(crate) const ENTRY_LIFE: Duration = Duration::from_secs(2);

    /// `check` warns of a snapshot this old: grants of a hot name are noticeably slower then.
    pub(crate) const OLD_SNAPSHOT: Duration = Duration::from_secs(10);
    /// `check` warns if so many percent of the server's queue of notifications are in use.
    pub(crate) const FULL_QUEUE: i64 = 50;
    /// `check` warns if this few sessions are left: there is no room for one more busy client.
    pub(crate) const FEW_SESSIONS: i64 = 10;

    /// A client listens only while so many of the server's sessions are free (the first of the
    /// second): where they are few, each client is to have one for its statements first. 40 clients
    /// can wait on a server with 100 sessions.
    pub(crate) const FREE_TO_LISTEN: (i64, i64) = (1, 6);
    /// And it goes on only while so many are.
    pub(crate) const FREE_TO_GO_ON: (i64, i64) = (1, 10);

    /// What can wait begins another session only after this long without an idle connection, for
    /// which it looks this often. A check is late by this and [`LONGEST_CHECK_PAUSE`], which
    /// together are less than a turn.
    pub(crate) const PATIENCE: Duration = Duration::from_millis(250);
    pub(crate) const IDLE_AGAIN: Duration = Duration::from_millis(10);

    /// A message to ourselves may take this long, or an answer on the connection for messages,
    /// before it counts as deaf.
    pub(crate) const ECHO: Duration = Duration::from_secs(3);
    /// It is asked this often while somebody waits: it may be gone without a word.
    pub(crate) const CHECK: Duration = Duration::from_secs(5);
    /// A new client waits so long until it is known whether messages arrive.
    pub(crate) const KNOWN: Duration = Duration::from_secs(10);
    /// And then it is found out for so long. A server that stands still, or a cut network, may
    /// leave any step of it without an answer; a server on which many clients begin at once is
    /// slow.
    pub(crate) const BEGIN: Duration = Duration::from_secs(60);
    /// The longest pause before a connection for messages is tried anew, and the shortest.
    pub(crate) const RECONNECT: Duration = Duration::from_secs(30);
    pub(crate) const RECONNECT_FIRST: Duration = Duration::from_millis(100);
    /// `init` tries rows that others had locked this soon again.
    pub(crate) const ROWS_AGAIN: Duration = Duration::from_millis(20);
    /// One statement sweeps so many rows, and one sweep is so many statements.
    pub(crate) const SWEPT: i64 = 1_000;
    pub(crate) const SWEEPS: usize = 10;
}

#[cfg(feature = "mysql")]
pub(crate) mod mysql {
    use std::time::Duration;

    /// The shortest lease: some round trips on a busy machine.
    pub const SHORTEST_LEASE: Duration = Duration::from_millis(100);
    /// A waiter counts so many others before it, to see how soon its turn comes.
    pub(crate) const SEEN_AHEAD: u32 = 64;
    /// The pause before heartbeats are sent again that met a locked entry: a commit.
    pub(crate) const HEARTBEAT_AGAIN: Duration = Duration::from_millis(10);
    /// One statement sends the heartbeats of this many entries, and one more.
    pub(crate) const HEARTBEAT_BATCH: usize = 1_000;
    /// One statement sweeps so many names, and one sweep is so many statements.
    pub(crate) const SWEPT: usize = 1_000;
    pub(crate) const SWEEPS: usize = 10;

    /// A holder that has taken a free lock looks for waiters when it has held the lock for so long.
    pub(crate) const LOOK_AFTER: Duration = Duration::from_secs(1);
    /// A client hangs at most so many bells, and listens to at most so many of others, with a
    /// session for each of these.
    pub(crate) const MOST_BELLS: usize = 1_000;
    pub(crate) const LISTENERS: usize = 4;
    /// A client begins a session for bells only while so many of the server's sessions are free
    /// (the first of the second): where they are few, each client is to have one for its statements
    /// first.
    pub(crate) const FREE_FOR_BELLS: (i64, i64) = (1, 6);
    /// And it goes on only while so many are.
    pub(crate) const FREE_TO_GO_ON: (i64, i64) = (1, 10);
    /// One statement waits so long for a bell.
    pub(crate) const LISTEN: Duration = Duration::from_secs(30);
    /// Any other statement on a session for bells may take so long.
    pub(crate) const BELL_ANSWER: Duration = Duration::from_secs(5);
    /// A waiter that listens to a bell polls this often, with a heartbeat each time. So its
    /// heartbeats come as often as those of an entry far back.
    pub(crate) const BELL_POLL: Duration = super::FAR_HEARTBEAT;
    /// The bell of an entry hangs for so long after the last poll of its waiter: far longer than
    /// the entry lives without one.
    pub(crate) const BELL_LIFE: Duration = Duration::from_secs(30);
    /// A client looks this often for bells whose time is over, for sessions that heard none since,
    /// and whether the session of its bells still answers.
    pub(crate) const BELL_CHECK: Duration = Duration::from_secs(5);
    /// The longest pause before a session for bells is tried anew, and the shortest.
    pub(crate) const RECONNECT: Duration = Duration::from_secs(30);
    pub(crate) const RECONNECT_FIRST: Duration = Duration::from_millis(100);
}

#[cfg(feature = "sqlite")]
pub(crate) mod sqlite {
    use std::time::Duration;

    /// The shortest lease: some writes to a slow disk.
    pub(crate) const SHORTEST_LEASE: Duration = Duration::from_millis(10);
    /// SQLite waits for other writers no shorter than 1 ms, and blocks its thread: so it does not,
    /// and we do.
    pub(crate) const OWN_WAIT: Duration = Duration::ZERO;
    /// So often a statement is tried again at once where another writes, which takes some 50 µs,
    /// before it pauses.
    pub(crate) const TRIES_AT_ONCE: usize = 10;
    /// A file of a pool that looks deleted is looked at again after this long: SQLite may just be
    /// closing it.
    pub(crate) const LAST_CLOSE: Duration = Duration::from_millis(20);
    /// A pipe that nobody reads is removed when it is this old: one that was just made may be about
    /// to be read.
    pub(crate) const OLD_BELL: Duration = Duration::from_secs(60);
}
