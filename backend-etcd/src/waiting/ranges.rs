//! The key ranges that a client watches for its waiters: all entries of a name, or a single key.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use lock_core::Mutex;
use tokio::sync::Notify;

use crate::tunables::{FEW_WATCHED, MOST_WATCHED};

/// The ranges: names, by the prefix of their keys, which ends with `/`, and single keys.
#[derive(Debug, Default)]
pub(super) struct WatchedRanges {
    known: Mutex<Known>,
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct Known {
    /// How many waiters use each range.
    users: HashMap<String, usize>,
    /// Names without users, the oldest first. They stay watched, since clients that take turns soon
    /// wait for them again.
    idle: VecDeque<String>,
    /// More than [`MOST_WATCHED`] ranges are in use, so one watch covers all keys.
    all: bool,
}

/// What the client must watch now.
pub(super) enum Ranges {
    Few(Vec<String>),
    /// All keys of the store.
    All,
}

impl Ranges {
    /// Whether nothing must be watched.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Few(names) if names.is_empty())
    }
}

/// Keeps a range watched: a key until this is dropped, and a name for a while longer.
#[derive(Debug)]
pub(crate) struct WatchedRange {
    ranges: Arc<WatchedRanges>,
    range: String,
}

impl WatchedRange {
    pub(super) fn new(ranges: &Arc<WatchedRanges>, range: String) -> Self {
        ranges.add_user(&range);
        Self { ranges: Arc::clone(ranges), range }
    }

    /// Watches another key from now on, unless a whole name is watched.
    pub(super) fn switch_to(&mut self, key: &str) {
        if is_key(&self.range) && self.range != key {
            // In this order, so that only one of the two is in use at a time.
            self.ranges.remove_user(&std::mem::replace(&mut self.range, key.to_owned()));
            self.ranges.add_user(key);
        }
    }
}

impl Drop for WatchedRange {
    fn drop(&mut self) {
        self.ranges.remove_user(&self.range);
    }
}

/// Whether this is a single key, and not the prefix of all keys of a name.
pub(super) fn is_key(range: &str) -> bool {
    !range.ends_with('/')
}

impl WatchedRanges {
    pub(super) fn current(&self) -> Ranges {
        let known = self.known.lock();
        match known.all {
            true => Ranges::All,
            false => Ranges::Few(known.users.keys().cloned().collect()),
        }
    }

    fn add_user(&self, range: &str) {
        let mut known = self.known.lock();
        if let Some(count) = known.users.get_mut(range) {
            *count += 1;
            if *count == 1 {
                known.idle.retain(|idle| idle != range);
            }
            return;
        }
        known.users.insert(range.to_owned(), 1);
        if known.users.len() > MOST_WATCHED {
            match known.idle.pop_front() {
                Some(oldest) => _ = known.users.remove(&oldest),
                None if known.all => return,
                None => known.all = true,
            }
        }
        drop(known);
        self.changed.notify_one();
    }

    /// Stops watching a name, if it has no users.
    pub(super) fn drop_if_idle(&self, name: &str) {
        let mut known = self.known.lock();
        if known.users.get(name) == Some(&0) {
            known.users.remove(name);
            known.idle.retain(|idle| idle != name);
            drop(known);
            self.changed.notify_one();
        }
    }

    fn remove_user(&self, range: &str) {
        let mut known = self.known.lock();
        let Some(count) = known.users.get_mut(range) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        if is_key(range) {
            // A later entry may have the same key. If the watch stayed, etcd would report the
            // deletion of that entry too.
            known.users.remove(range);
            self.changed.notify_one();
        } else if known.users.len() > MOST_WATCHED {
            known.users.remove(range);
        } else {
            known.idle.push_back(range.to_owned());
        }
        if known.all && known.users.len() - known.idle.len() <= FEW_WATCHED {
            known.all = false;
            drop(known);
            self.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(ranges: &Arc<WatchedRanges>, each: std::ops::Range<usize>) -> Vec<WatchedRange> {
        each.map(|number| WatchedRange::new(ranges, format!("{number}/"))).collect()
    }

    fn few(ranges: &WatchedRanges) -> Option<usize> {
        match ranges.current() {
            Ranges::Few(each) => Some(each.len()),
            Ranges::All => None,
        }
    }

    #[test]
    fn an_idle_name_stays_watched_until_other_names_need_its_slot() {
        let ranges = Arc::new(WatchedRanges::default());
        drop(watched(&ranges, 0..3));
        assert_eq!(few(&ranges), Some(3));
        let _kept = watched(&ranges, 2..MOST_WATCHED + 2);
        assert_eq!(few(&ranges), Some(MOST_WATCHED));
        assert!(!matches!(ranges.current(), Ranges::Few(each) if each.contains(&"0/".to_owned())));
    }

    #[test]
    fn a_key_is_watched_only_while_it_has_users() {
        let ranges = Arc::new(WatchedRanges::default());
        let others = watched(&ranges, 1..MOST_WATCHED);
        let mut key = WatchedRange::new(&ranges, "job/1".to_owned());
        key.switch_to("job/2");
        // Two keys at once would be one range too many, and all keys would be watched.
        assert_eq!(few(&ranges), Some(MOST_WATCHED));
        assert!(
            matches!(ranges.current(), Ranges::Few(each) if !each.contains(&"job/1".to_owned()))
        );
        drop(key);
        assert_eq!(few(&ranges), Some(MOST_WATCHED - 1));
        drop(others);
    }

    #[test]
    fn with_many_names_all_keys_are_watched_until_few_names_are_left() {
        let ranges = Arc::new(WatchedRanges::default());
        let mut kept = watched(&ranges, 0..MOST_WATCHED);
        assert_eq!(few(&ranges), Some(MOST_WATCHED));
        kept.extend(watched(&ranges, MOST_WATCHED..3 * MOST_WATCHED));
        assert_eq!(few(&ranges), None);
        kept.truncate(FEW_WATCHED + 1);
        assert_eq!(few(&ranges), None);
        kept.truncate(FEW_WATCHED);
        assert!(few(&ranges).is_some_and(|few| few <= MOST_WATCHED));
        kept.clear();
        assert!(ranges.known.lock().idle.len() <= MOST_WATCHED);
    }
}
