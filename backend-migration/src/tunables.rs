//! The tunable numbers of a migration, each with its reason.

use std::time::Duration;

/// How long the write of one record may wait for its store. An operator who restarts a process
/// waits for it.
pub(crate) const ENTER_LIMIT: Duration = Duration::from_secs(5);

/// The longest pause before a lost record is written again. Until then a process in an end phase
/// neither acquires nor renews.
pub(crate) const LONGEST_REWRITE_PAUSE: Duration = Duration::from_secs(1);

/// While a process waits for the second store, it renews its grant of the first after this fraction
/// of the lease, as the core renews a held lock: `RENEWAL_PART` in `lock-core` (a third, or up to a
/// quarter of that time earlier).
pub(crate) const RENEW_AFTER: u32 = 4;
