//! The tunable numbers of a migration, each with its reason.

use std::time::Duration;

/// How long the write of one record may wait for its store. An operator who restarts a process waits for it.
pub(crate) const ENTER_LIMIT: Duration = Duration::from_secs(5);

/// The longest pause before a lost record is written again. Until then a process in an end phase neither acquires nor renews.
pub(crate) const LONGEST_REWRITE_PAUSE: Duration = Duration::from_secs(1);

/// While the second store is waited for, the grant of the first is renewed after this fraction of its lease, as the core
/// renews a held lock.
pub(crate) const RENEW_AFTER: u32 = 4;
