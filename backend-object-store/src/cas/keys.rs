//! The keys of objects.

use std::fmt::Write as _;

use lock_core::LockName;

/// All keys of locks begin with this.
pub(super) const LOCKS: &str = "locks/";
/// The settings of the store.
pub(super) const SETTINGS: &str = "settings";
/// The object with which a client finds out whether the store compares.
pub(super) const PROBE: &str = "probe";

/// The key of a name: letters and digits stay, any other byte becomes `=` and two digits. So a key
/// is readable, the same in every store, and never a path.
pub(super) fn of(name: &LockName) -> String {
    name.as_str().bytes().fold(LOCKS.to_owned(), |mut key, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            key.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(key, "={byte:02x}");
        }
        key
    })
}

/// The name of a key; `None` if another program has made the object.
pub(super) fn name(key: &str) -> Option<LockName> {
    let mut parts = key.strip_prefix(LOCKS)?.split('=');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(&part.as_bytes()[2..]);
    }
    LockName::new(String::from_utf8(bytes).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_key_of_its_own() {
        let names = ["job", "a/../b", "ä", "=2f", "/", "a b", "A", "a", "日本", "%2F", "-_"];
        let mut keys = Vec::new();
        for text in names {
            let wanted = LockName::new(text).unwrap();
            let key = of(&wanted);
            assert!(
                key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/=-_".contains(&byte))
            );
            assert_eq!(key.matches('/').count(), 1, "{key}");
            assert_eq!(name(&key), Some(wanted), "{key}");
            assert!(!keys.contains(&key), "{key}");
            keys.push(key);
        }
        for foreign in ["locks/a=", "locks/a=zz", "locks/", "job", "locks/=ff"] {
            assert_eq!(name(foreign), None, "{foreign}");
        }
    }
}
