//! The paths of all nodes.
//!
//! ```text
//! PREFIX/NAME/_c_OWNER-lock-0000000007          an entry in the queue of a lock
//! PREFIX/%leasehold/settings                    the settings of the store
//! PREFIX/%leasehold/names/BUCKET/NAME           the token and the record of a name
//! PREFIX/%leasehold/abandoned/OWNER             a tombstone
//! PREFIX/%leasehold/sessions/s-0000000001       the node of a session
//! ```
//!
//! Nothing but entries belongs in the directory of a name: others fail there, or wait for ever.

use std::fmt::Write as _;

use lock_core::{LockName, OwnerId};

use super::entry::{Entry, uuid};

/// What no escaped name is: after a `%` it has two hexadecimal digits.
const OWN: &str = "%leasehold";

/// The paths of a store.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Empty, or starts with `/` and does not end with it.
    prefix: String,
}

impl Layout {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.trim_end_matches('/').to_owned() }
    }

    /// The directory with the entries of a name.
    pub(crate) fn directory(&self, name: &LockName) -> String {
        format!("{}/{}", self.prefix, self.escape(name))
    }

    /// An entry of a name.
    pub(crate) fn entry(&self, name: &LockName, entry: &Entry) -> String {
        format!("{}/{}", self.directory(name), entry.node)
    }

    /// The node with the token of a name.
    pub(crate) fn note(&self, name: &LockName) -> String {
        let escaped = self.escape(name);
        format!("{}/{escaped}", self.bucket(bucket_of(&escaped)))
    }

    /// The parent of the nodes of names with this hash. Its data is the watermark of their tokens.
    /// There are 256: ZooKeeper answers at most 1 MB, and one for all names would be too large to
    /// list.
    pub(crate) fn bucket(&self, bucket: u8) -> String {
        format!("{}/{OWN}/names/{bucket:02x}", self.prefix)
    }

    pub(crate) fn settings(&self) -> String {
        format!("{}/{OWN}/settings", self.prefix)
    }

    pub(crate) fn tombstone(&self, owner: OwnerId) -> String {
        format!("{}/{OWN}/abandoned/{}", self.prefix, uuid(owner))
    }

    /// What ZooKeeper adds a number to.
    pub(crate) fn session(&self) -> String {
        format!("{}/{OWN}/sessions/s-", self.prefix)
    }

    /// The prefix, for the name of the store.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// ZooKeeper refuses `.`, `..` and some characters in paths: control characters, private-use
    /// characters, and those that are two units in UTF-16. In its root it has a node of its own.
    fn escape(&self, name: &LockName) -> String {
        let name = name.as_str();
        let is_taken = matches!(name, "." | "..") || self.prefix.is_empty() && name == "zookeeper";
        let mut escaped = String::with_capacity(name.len());
        for (at, each) in name.char_indices() {
            let is_refused = matches!(each, '/' | '%' | '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}')
                || matches!(each, '\u{d7ff}'..='\u{f8ff}' | '\u{ffee}'..='\u{10ffff}');
            if !(is_refused || is_taken && at == 0) {
                escaped.push(each);
                continue;
            }
            for byte in each.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a string does not fail.
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
        escaped
    }
}

/// The bucket of an escaped name, by FNV-1a.
fn bucket_of(escaped: &str) -> u8 {
    let hash = escaped.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)) as u8
}

/// The name of an escaped name; `None` if it is none.
pub(crate) fn unescape(escaped: &str) -> Option<LockName> {
    let decoded = percent_encoding::percent_decode_str(escaped).decode_utf8().ok()?;
    LockName::new(decoded).ok()
}

/// The parent of a path.
pub(crate) fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |at| &path[..at])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn escaped_names_are_accepted_by_zookeeper_and_kept_apart() {
        let layout = Layout::new("/");
        let odd = ["a/b", ".", "..", "%", "%2F", "\u{e000}", "\u{fffd}", "\u{1f512}", "zookeeper"];
        let mut seen = std::collections::BTreeSet::new();
        for name in odd.into_iter().chain(["a", "日本", "...", "ß", "a.b"]) {
            let name = LockName::new(name).unwrap();
            let path = layout.directory(&name);
            let escaped = path.strip_prefix('/').unwrap();
            assert_eq!(unescape(escaped), Some(name));
            assert!(!matches!(escaped, "." | ".." | OWN | "zookeeper"), "{escaped}");
            let refused = |each: char| {
                each == '/' || each > '\u{d7ff}' && !('\u{f900}'..'\u{ffee}').contains(&each)
            };
            assert!(!escaped.contains(refused), "{escaped}");
            assert!(seen.insert(escaped.to_owned()));
        }
    }
}
