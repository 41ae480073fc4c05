//! The migration record that leasehold shows for foreign clients, which keep no record of their
//! own.

use std::time::Duration;

use lock_core::{Error, LockName, OwnerLabel};

use crate::tunables::FOREIGN_CLIENT_LIFE;

/// FNV-1a. It must never change, since stored names contain it.
pub(crate) fn digest(text: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    text.bytes().fold(start, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// A record like that of a process that uses only this store, and how long it counts. `None` if no
/// foreign client was seen recently. The name has the form of record/names.rs in backend-migration.
pub(crate) fn of_foreign_clients(
    store: &str,
    word: &str,
    seen: Duration,
) -> Result<Option<(LockName, OwnerLabel, Duration)>, Error> {
    let Some(left) = FOREIGN_CLIENT_LIFE.checked_sub(seen) else { return Ok(None) };
    let name =
        LockName::new(format!("leasehold migration only {:016x} {:032x}", digest(store), 0))?;
    let ago = humantime::format_duration(Duration::from_secs(seen.as_secs()));
    let label =
        OwnerLabel::new(format!("a {word} client, seen {ago} ago; others may have been silent"))?;
    Ok(Some((name, label, left)))
}
