//! The tunable numbers of this crate, each with its reason.

use std::time::Duration;

/// How long a call may take, with all its requests. A request to a cloud takes 20 to 50 ms.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// The allowed timeouts: below, a healthy store fails; above, a holder learns too late of a store
/// that hangs.
#[cfg(feature = "clouds")]
pub(crate) const TIMEOUTS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(60)];
/// The first pause before a step reads again, after another client was faster or the store did not
/// answer. It doubles up to the longest.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest such pause: a store that asks its clients to slow down recovers within seconds.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often a step that has sent no write tries again: a bucket that is busy for a moment refuses
/// a few requests, and a store that is down should be reported at once.
pub(crate) const READ_TRIES: u32 = 4;
/// A waiter polls after this part of the time it has waited: a short wait ends soon after the
/// release, and a long one is cheap.
pub(crate) const POLL_PART: u32 = 8;
/// The shortest pause between two polls of a waiter, so that ten waiters send 50 reads a second.
pub(crate) const SHORTEST_POLL: Duration = Duration::from_millis(200);
/// The longest pause between two polls: 720 reads an hour.
pub(crate) const LONGEST_POLL: Duration = Duration::from_secs(5);
/// A client that has not looked for so long waits no longer: four of the longest pauses.
pub(crate) const STILL_WAITS: Duration = Duration::from_secs(20);
/// When the settings are read again, at the next attempt or renewal: 1,440 reads a day. `init`
/// changes them, and others may learn of it late, since each record has the lease of its holder.
pub(crate) const OLD_SETTINGS: Duration = Duration::from_secs(60);
/// Renewals of a client at the same time, and reads of a listing: enough for 500 a second at 30 ms
/// each, and far below what a bucket serves.
pub(crate) const AT_ONCE: usize = 16;
/// Abandoned owners in a record. Their late writes fail by their version; the list only stops an
/// attempt that begins after it was given up, which no client sends.
pub(crate) const MOST_ABANDONED: usize = 8;
/// The fewest names at which the client forgets those that nobody asks about.
pub(crate) const FEW_NAMES: usize = 1_024;
/// How long a client remembers the beat of a holder that nobody asks about. A process that tries a
/// lock once a day must still notice that its holder is dead.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(2 * 86_400);
/// The longest prefix of a bucket: the clouds' keys have at most 1,024 bytes, and the key of the
/// longest name, with three bytes for each of its 255, has 771 and a `/` before.
pub(crate) const LONGEST_PREFIX: usize = 1_024 - 772;
/// How far a client's clock may be from the store's when it connects. Only tokens and the times of
/// records use the clock. Stores give times in whole seconds, and a request may take seconds.
pub(crate) const CLOCK_BOUND: Duration = Duration::from_secs(60);
