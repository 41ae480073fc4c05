//! The record of a process in a migration, as it is shown for clients of the other library, which keep none.

use std::time::Duration;

use lock_core::{Error, LockName, OwnerLabel};

use crate::tunables::THEIRS_COUNT_FOR;

/// FNV-1a, which must never change.
pub(crate) fn digest(text: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    text.bytes().fold(start, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// A record as of a process that uses this store alone, and for how long it counts; `None` where no client of the other
/// library was seen of late. Its name is as in record/uses.rs of backend-migration.
pub(crate) fn of_theirs(
    store: &str,
    word: &str,
    seen: Duration,
) -> Result<Option<(LockName, OwnerLabel, Duration)>, Error> {
    let Some(left) = THEIRS_COUNT_FOR.checked_sub(seen) else { return Ok(None) };
    let name =
        LockName::new(format!("leasehold migration only {:016x} {:032x}", digest(store), 0))?;
    let ago = humantime::format_duration(Duration::from_secs(seen.as_secs()));
    let label =
        OwnerLabel::new(format!("a {word} client, seen {ago} ago; others may have been silent"))?;
    Ok(Some((name, label, left)))
}
