//! The keys, in the layout of etcd's own lock tools.
//!
//! An entry of a lock's queue is `<prefix><name>/<number in hex>`, and the entry with the oldest
//! create revision below `<prefix><name>/` holds the lock. etcd's tools look for entries by the
//! same prefix, so they and leasehold exclude each other. etcd's tools use the entry's lease as the
//! number. A leasehold client reuses a few numbers of its own. A reader's entry has `~` before the
//! number: so it blocks every writer, and a reader can ask for the writers alone.

use lock_core::{LockName, Mode, OwnerId};

/// Stands before the number in a reader's key. It sorts after all numbers.
const READER: char = '~';

/// Where a store has its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLayout {
    prefix: String,
}

/// The meaning of the key of a queue entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryKey {
    /// The name as it was before it was escaped.
    pub name: LockName,
    /// Which entry of the name it is. etcd's own tools put the entry's lease here.
    pub number: i64,
    /// Whether it is the entry of a reader or of a writer. All entries of etcd's own tools are
    /// writers.
    pub mode: Mode,
}

impl KeyLayout {
    /// A layout whose keys all start with `prefix`, which may be empty.
    #[must_use]
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into() }
    }

    /// The prefix of all keys.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The prefix of the keys of all entries of a name, and of no other name.
    #[must_use]
    pub fn entries(&self, name: &LockName) -> String {
        format!("{}{}/", self.prefix, escape(name.as_str()))
    }

    /// The key of an entry by its number, which is positive.
    #[must_use]
    pub fn entry(&self, name: &LockName, mode: Mode, number: i64) -> String {
        // Go prints `%x` of a positive number: lower case, no padding.
        match mode {
            Mode::Shared => format!("{}{number:x}", self.readers(name)),
            _ => format!("{}{number:x}", self.entries(name)),
        }
    }

    /// The prefix of the keys of all readers of a name.
    fn readers(&self, name: &LockName) -> String {
        format!("{}{READER}", self.entries(name))
    }

    /// The end of the key range, from [`entries`](Self::entries) on, of all entries that block a
    /// request of this mode: every entry blocks a writer, and only writers block a reader.
    pub(crate) fn end_of_obstacles(&self, name: &LockName, mode: Mode) -> String {
        match mode {
            Mode::Shared => self.readers(name),
            // The end of a prefix, as etcd computes it: `0` is the next character after `/`.
            _ => format!("{}{}0", self.prefix, escape(name.as_str())),
        }
    }

    /// The key of the settings. No escaped name is `%leasehold`, so this key is not among the
    /// entries of any name.
    #[must_use]
    pub fn settings(&self) -> String {
        format!("{}%leasehold/settings", self.prefix)
    }

    /// The key of the quarantine. Nothing is granted while it exists.
    #[must_use]
    pub fn quarantine(&self) -> String {
        format!("{}%leasehold/quarantine", self.prefix)
    }

    /// The key of the tombstone of an owner, which marks it as abandoned.
    #[must_use]
    pub fn tombstone(&self, owner: OwnerId) -> String {
        format!("{}%leasehold/abandoned/{owner}", self.prefix)
    }

    /// The key of the record of a name.
    pub(crate) fn record(&self, name: &LockName) -> String {
        format!("{}%leasehold/records/{}", self.prefix, escape(name.as_str()))
    }

    /// The key that names the entry of a reader, so that a repeat of its request finds the entry.
    /// It lives by the same lease.
    pub(crate) fn reader(&self, owner: OwnerId) -> String {
        format!("{}%leasehold/readers/{owner}", self.prefix)
    }

    /// The name to whose entries a key belongs; `None` if there is none.
    pub(crate) fn name_of(&self, key: &[u8]) -> Option<LockName> {
        let rest = key.strip_prefix(self.prefix.as_bytes())?;
        let end = rest.iter().position(|byte| *byte == b'/')?;
        let escaped = std::str::from_utf8(&rest[..end]).ok()?;
        let name = LockName::new(unescape(escaped)?).ok()?;
        (escape(name.as_str()) == escaped).then_some(name)
    }

    /// Parses a key; `None` if it is not the key of an entry in this layout.
    #[must_use]
    pub fn read(&self, key: &str) -> Option<EntryKey> {
        let (name, number) = key.strip_prefix(&self.prefix)?.split_once('/')?;
        let name = LockName::new(unescape(name)?).ok()?;
        let (mode, number) = match number.strip_prefix(READER) {
            Some(number) => (Mode::Shared, number),
            None => (Mode::Exclusive, number),
        };
        let number = i64::from_str_radix(number, 16).ok().filter(|number| *number > 0)?;
        let entry = EntryKey { name, number, mode };
        // Each entry has one spelling: `+1f`, `01F` or `%61` would be another key with the same
        // meaning.
        (self.entry(&entry.name, mode, number) == key).then_some(entry)
    }
}

/// Whether a key is the entry of a reader or of a writer.
pub(crate) fn mode_of(key: &[u8]) -> Mode {
    let number = key.iter().rposition(|byte| *byte == b'/').and_then(|at| key.get(at + 1));
    match number {
        Some(first) if char::from(*first) == READER => Mode::Shared,
        _ => Mode::Exclusive,
    }
}

/// Escapes `/`: otherwise the entries of `a/b` would be among those of `a`.
///
/// `%` is escaped too, so that no two names share keys. All else stays, so that a name without
/// these two characters is the same name in etcd's tools.
fn escape(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2F")
}

/// The reverse of [`escape`]; `None` for a text that [`escape`] never produces.
fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut name = parts.next()?.to_owned();
    for part in parts {
        if let Some(rest) = part.strip_prefix("25") {
            name.push('%');
            name.push_str(rest);
        } else {
            name.push('/');
            name.push_str(part.strip_prefix("2F")?);
        }
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn name(text: &str) -> LockName {
        LockName::new(text).unwrap()
    }

    #[test]
    fn a_plain_name_has_the_key_of_etcds_own_tools() {
        let layout = KeyLayout::new("");
        let writer = Mode::Exclusive;
        assert_eq!(layout.entry(&name("job"), writer, 0x694d_77aa_11ee), "job/694d77aa11ee");
        let layout = KeyLayout::new("app/");
        assert_eq!(layout.entry(&name("job"), writer, 31), "app/job/1f");
    }

    #[test]
    fn readers_are_among_the_entries_of_their_name_after_all_writers() {
        let (layout, job) = (KeyLayout::new("p/"), name("job"));
        let [readers, all] =
            [Mode::Shared, Mode::Exclusive].map(|mode| layout.end_of_obstacles(&job, mode));
        let reader = layout.entry(&job, Mode::Shared, 1);
        assert!(reader.starts_with(&layout.entries(&job)), "{reader}");
        assert!(readers < reader && reader < all, "{reader}");
        assert_eq!(mode_of(reader.as_bytes()), Mode::Shared);
        for number in [1, 9, 0xa, i64::MAX] {
            let writer = layout.entry(&job, Mode::Exclusive, number);
            assert!(writer < readers, "{writer}");
            assert_eq!(mode_of(writer.as_bytes()), Mode::Exclusive);
        }
        assert_eq!(mode_of(b"p/~name/1"), Mode::Exclusive);
        assert_eq!(mode_of(b"p/job/"), Mode::Exclusive);
    }

    #[test]
    fn names_with_slashes_do_not_share_a_prefix_of_entries() {
        let layout = KeyLayout::new("p/");
        let names = ["a", "a/b", "a%2Fb", "a%b", "a/", "/a", "%", "/", "a%25", "ä/ö"].map(name);
        for one in &names {
            for other in names.iter().filter(|other| *other != one) {
                let key = layout.entry(other, Mode::Exclusive, 1);
                assert!(!key.starts_with(&layout.entries(one)), "{one} {other}");
            }
            for mode in [Mode::Exclusive, Mode::Shared] {
                let read = layout.read(&layout.entry(one, mode, i64::MAX)).unwrap();
                assert_eq!(read, EntryKey { name: one.clone(), number: i64::MAX, mode });
            }
        }
    }

    #[test]
    fn internal_keys_are_not_entries() {
        let layout = KeyLayout::new("p/");
        let tombstone = layout.tombstone(OwnerId::from_bits(7));
        let reader = layout.reader(OwnerId::from_bits(7));
        let record = layout.record(&name("a/b"));
        for key in [layout.settings(), layout.quarantine(), tombstone, reader, record] {
            assert_eq!(layout.read(&key), None, "{key}");
            assert!(!key.starts_with(&layout.entries(&name("%leasehold"))));
        }
    }

    #[test]
    fn other_keys_are_not_parsed_as_entries() {
        let layout = KeyLayout::new("p/");
        let others =
            ["a/1", "p/a", "p/a/", "p/a/x", "p/a/0", "p/a/-1", "p/a/01", "p/a/1F", "p/a/+1"];
        let odd = ["p/a/~", "p/a/~0", "p/a/~~1", "p/a/1~"];
        for key in
            others.into_iter().chain(odd).chain(["p/a/b/1", "p/%/1", "p/%2f/1", "p/%61/1", "p//1"])
        {
            assert_eq!(layout.read(key), None, "{key}");
        }
    }
}
