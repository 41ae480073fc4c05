//! What a client's waiters want to be watched: names, or single keys.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use lock_core::Mutex;
use tokio::sync::Notify;

use crate::tunables::MOST_WATCHED;

/// Names by the beginnings of their keys, which end with `/`, and keys.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: Mutex<Known>,
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct Known {
    /// How many want each.
    wanted: HashMap<String, usize>,
    /// Those that nobody wants now, the oldest first: whoever takes turns wants them again.
    idle: VecDeque<String>,
    /// More than [`MOST_WATCHED`] are wanted: one watch covers all keys.
    wide: bool,
}

/// What is to be watched.
pub(super) enum Ranges {
    /// These.
    Few(Vec<String>),
    All,
}

impl Ranges {
    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Few(names) if names.is_empty())
    }
}

/// A key is watched until this is dropped, and a name for a while longer.
#[derive(Debug)]
pub(crate) struct Watched {
    names: Arc<Names>,
    range: String,
}

impl Watched {
    pub(super) fn new(names: &Arc<Names>, range: String) -> Self {
        names.want(&range);
        Self { names: Arc::clone(names), range }
    }

    /// Watches another key from now on, where it is not a whole name that is watched.
    pub(super) fn turn_to(&mut self, key: &str) {
        if is_key(&self.range) && self.range != key {
            // In this order, one at a time is wanted.
            self.names.leave(&std::mem::replace(&mut self.range, key.to_owned()));
            self.names.want(key);
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.names.leave(&self.range);
    }
}

/// Whether this is a key, and not the beginning of all keys of a name.
pub(super) fn is_key(range: &str) -> bool {
    !range.ends_with('/')
}

impl Names {
    pub(super) fn ranges(&self) -> Ranges {
        let known = self.known.lock();
        match known.wide {
            true => Ranges::All,
            false => Ranges::Few(known.wanted.keys().cloned().collect()),
        }
    }

    fn want(&self, range: &str) {
        let mut known = self.known.lock();
        if let Some(count) = known.wanted.get_mut(range) {
            *count += 1;
            if *count == 1 {
                known.idle.retain(|idle| idle != range);
            }
            return;
        }
        known.wanted.insert(range.to_owned(), 1);
        if known.wanted.len() > MOST_WATCHED {
            match known.idle.pop_front() {
                Some(oldest) => _ = known.wanted.remove(&oldest),
                None if known.wide => return,
                None => known.wide = true,
            }
        }
        drop(known);
        self.changed.notify_one();
    }

    /// Watches a name no more, unless somebody wants it.
    pub(super) fn let_go(&self, name: &str) {
        let mut known = self.known.lock();
        if known.wanted.get(name) == Some(&0) {
            known.wanted.remove(name);
            known.idle.retain(|idle| idle != name);
            drop(known);
            self.changed.notify_one();
        }
    }

    fn leave(&self, range: &str) {
        let mut known = self.known.lock();
        let Some(count) = known.wanted.get_mut(range) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        if is_key(range) {
            // A later entry may have the same key: a watch that stayed would tell of its end.
            known.wanted.remove(range);
            self.changed.notify_one();
        } else if known.wanted.len() > MOST_WATCHED {
            known.wanted.remove(range);
        } else {
            known.idle.push_back(range.to_owned());
        }
        // Not at once, so that one more or less does not change all watches.
        if known.wide && known.wanted.len() - known.idle.len() <= MOST_WATCHED / 2 {
            known.wide = false;
            drop(known);
            self.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(names: &Arc<Names>, each: std::ops::Range<usize>) -> Vec<Watched> {
        each.map(|number| Watched::new(names, format!("{number}/"))).collect()
    }

    fn few(names: &Names) -> Option<usize> {
        match names.ranges() {
            Ranges::Few(each) => Some(each.len()),
            Ranges::All => None,
        }
    }

    #[test]
    fn a_name_stays_watched_until_others_need_its_place() {
        let names = Arc::new(Names::default());
        drop(watched(&names, 0..3));
        assert_eq!(few(&names), Some(3));
        let _kept = watched(&names, 2..MOST_WATCHED + 2);
        assert_eq!(few(&names), Some(MOST_WATCHED));
        assert!(!matches!(names.ranges(), Ranges::Few(each) if each.contains(&"0/".to_owned())));
    }

    #[test]
    fn a_key_is_watched_no_longer_than_it_is_wanted() {
        let names = Arc::new(Names::default());
        let others = watched(&names, 1..MOST_WATCHED);
        let mut key = Watched::new(&names, "job/1".to_owned());
        key.turn_to("job/2");
        // It never wants two keys at once: that would be one too many, and all keys would be watched.
        assert_eq!(few(&names), Some(MOST_WATCHED));
        assert!(matches!(names.ranges(), Ranges::Few(each) if !each.contains(&"job/1".to_owned())));
        drop(key);
        assert_eq!(few(&names), Some(MOST_WATCHED - 1));
        drop(others);
    }

    #[test]
    fn where_many_names_are_waited_for_all_are_watched_until_few_are_left() {
        let names = Arc::new(Names::default());
        let mut kept = watched(&names, 0..MOST_WATCHED);
        assert_eq!(few(&names), Some(MOST_WATCHED));
        kept.extend(watched(&names, MOST_WATCHED..3 * MOST_WATCHED));
        assert_eq!(few(&names), None);
        kept.truncate(MOST_WATCHED / 2 + 1);
        assert_eq!(few(&names), None);
        kept.truncate(MOST_WATCHED / 2);
        assert!(few(&names).is_some_and(|few| few <= MOST_WATCHED));
        kept.clear();
        assert!(names.known.lock().idle.len() <= MOST_WATCHED);
    }
}
