//! Entries in the queue of a lock: their names and their order.
//!
//! ```text
//! _c_OWNER-lock-0000000007            a writer: Curator, go-zookeeper and kazoo understand it
//! _c_OWNER-read-lock-0000000008       a reader, which for them is a writer
//! ```
//!
//! An entry keeps its name when it moves to another session of its owner, and when it is kept
//! without one: otherwise those behind it would find it gone. Each such step gives the node a
//! higher version.

use lock_core::{Mode, OwnerId};

/// What a child of a lock's directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Writer,
    Reader,
    /// Made by another library, or by hand.
    Foreign,
}

/// A child of a lock's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) node: String,
    pub(crate) kind: Kind,
    pub(crate) owner: Option<OwnerId>,
    /// Its place in the queue. A node without a number blocks all others.
    pub(crate) number: Option<i32>,
}

/// The owner as a UUID, as Curator writes it.
pub(crate) fn uuid(owner: OwnerId) -> String {
    let hex = format!("{:032x}", owner.to_bits());
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

fn read_uuid(text: &str) -> Option<OwnerId> {
    let hex: String = text.split('-').collect();
    let is_uuid = text.len() == 36 && hex.len() == 32;
    u128::from_str_radix(&hex, 16).ok().filter(|_| is_uuid).map(OwnerId::from_bits)
}

/// The name of an entry without its number.
pub(crate) fn stem(owner: OwnerId, kind: Kind) -> String {
    let mark = match kind {
        Kind::Reader => "read-",
        Kind::Writer | Kind::Foreign => "",
    };
    format!("_c_{}-{mark}lock-", uuid(owner))
}

#[cfg(test)]
fn node(owner: OwnerId, kind: Kind, number: i32) -> String {
    format!("{}{number:010}", stem(owner, kind))
}

pub(crate) fn kind_of(mode: Mode) -> Kind {
    match mode {
        Mode::Shared => Kind::Reader,
        _ => Kind::Writer,
    }
}

impl Entry {
    /// The entry at the end of a path.
    pub(crate) fn at(path: &str) -> Self {
        Self::read(path.rsplit('/').next().unwrap_or_default().to_owned())
    }

    pub(crate) fn read(node: String) -> Self {
        // The number has ten digits, and a sign after 2^31 entries.
        let digits = node.trim_end_matches(|each: char| each.is_ascii_digit()).len();
        let sign = digits.saturating_sub(usize::from(node[..digits].ends_with("--")));
        let number = node.get(sign..).filter(|text| text.len() >= 10);
        let number = number.and_then(|text| text.parse().ok());
        let parsed = node.strip_prefix("_c_").and_then(|rest| {
            let owner = read_uuid(rest.get(..36)?)?;
            let kind = match rest.get(36..)?.strip_suffix(node.get(sign..)?)? {
                "-lock-" => Kind::Writer,
                "-read-lock-" => Kind::Reader,
                _ => return None,
            };
            Some((owner, kind))
        });
        let parsed = parsed.filter(|_| number.is_some());
        let (owner, kind) =
            parsed.map_or((None, Kind::Foreign), |(owner, kind)| (Some(owner), kind));
        Self { node, kind, owner, number }
    }

    /// Whether it stands before an entry with this number. Numbers go on below zero after 2^31.
    pub(crate) fn is_before(&self, number: i32) -> bool {
        self.number.is_none_or(|own| own.wrapping_sub(number) < 0)
    }

    /// Whether an entry of this kind behind it waits for it.
    pub(crate) fn blocks(&self, kind: Kind) -> bool {
        !(self.kind == Kind::Reader && kind == Kind::Reader)
    }
}

/// The children of a directory in the order of the queue.
pub(crate) fn in_order(children: Vec<String>) -> Vec<Entry> {
    let mut entries: Vec<_> = children.into_iter().map(Entry::read).collect();
    let Some(any) = entries.iter().find_map(|entry| entry.number) else { return entries };
    // Compared with any of them, all are less than 2^31 away.
    entries.sort_by_key(|entry| entry.number.map_or(i32::MIN, |own| own.wrapping_sub(any)));
    entries
}

/// The entries that hold the lock: the first one and, if it is a reader, all readers before the
/// first writer.
pub(crate) fn holders(entries: &[Entry]) -> &[Entry] {
    let readers = entries.iter().take_while(|entry| entry.kind == Kind::Reader).count();
    &entries[..readers.max(1).min(entries.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: OwnerId = OwnerId::from_bits(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

    #[test]
    fn entries_are_read_as_they_are_written() {
        for kind in [Kind::Writer, Kind::Reader] {
            for number in [0, 7, i32::MAX, i32::MIN, -1] {
                let node = node(OWNER, kind, number);
                let entry =
                    Entry { node: node.clone(), kind, owner: Some(OWNER), number: Some(number) };
                assert_eq!(Entry::read(node), entry);
            }
        }
    }

    #[test]
    fn entries_of_other_libraries_have_a_place() {
        let place = |node: &str| {
            let entry = Entry::read(node.to_owned());
            (entry.kind, entry.number)
        };
        let kazoo = "0f2b4c6d8e0f2b4c6d8e0f2b4c6d8e0f__lock__0000000003";
        assert_eq!(place(kazoo), (Kind::Foreign, Some(3)));
        let go = "_c_0f2b4c6d8e0f2b4c6d8e0f2b4c6d8e0f-lock-0000000004";
        assert_eq!(place(go), (Kind::Foreign, Some(4)));
        let curator = "_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000005";
        assert_eq!(place(curator), (Kind::Writer, Some(5)));
        assert_eq!(place("leader"), (Kind::Foreign, None));
        assert_eq!(place("日本"), (Kind::Foreign, None));
        assert_eq!(place("é0000000006"), (Kind::Foreign, Some(6)));
    }

    #[test]
    fn the_order_goes_on_after_the_last_number() {
        let numbers = [i32::MIN + 1, i32::MAX, i32::MIN, i32::MAX - 1];
        let children = numbers.map(|number| node(OWNER, Kind::Writer, number));
        let order: Vec<_> = in_order(children.to_vec()).iter().map(|it| it.number).collect();
        let expected = [i32::MAX - 1, i32::MAX, i32::MIN, i32::MIN + 1].map(Some);
        assert_eq!(order, expected);
        assert!(Entry::read(node(OWNER, Kind::Writer, i32::MAX)).is_before(i32::MIN));
    }
}
