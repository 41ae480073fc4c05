//! The version of all that this crate keeps in Redis.

use lock_core::{Error, check_record_version};

/// The version of keys, records and scripts, as in `scripts/version.lua`. Nodes of Redlock have the
/// same.
pub const RECORD_VERSION: u64 = 1;

/// Refuses records of another version, as the epoch record names it.
///
/// # Errors
/// `Config`.
pub(crate) fn check(stored: &str) -> Result<(), Error> {
    check_record_version(stored, RECORD_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_have_the_same_version() {
        let line = format!("local VERSION = '{RECORD_VERSION}'");
        assert!(include_str!("../scripts/version.lua").lines().any(|own| own == line));
    }
}
