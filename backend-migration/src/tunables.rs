//! The numbers of a migration that could be others, each with its reason.

use std::time::Duration;

/// How long the write of one record may wait for its store: an operator who restarts a process waits for the
/// answer.
pub(crate) const ENTER_LIMIT: Duration = Duration::from_secs(5);

/// The longest pause before a lost record is written again: until then an end phase neither acquires nor renews.
pub(crate) const LONGEST_REWRITE_PAUSE: Duration = Duration::from_secs(1);

/// A grant of the first store that waits for the second is renewed after this part of its lease, as the core
/// renews a held lock.
pub(crate) const RENEW_AFTER: u32 = 4;
