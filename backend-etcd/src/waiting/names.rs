//! The names that a client's waiters want to be watched.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use lock_core::Mutex;
use tokio::sync::Notify;

use crate::tunables::MOST_WATCHED;

/// By the beginnings of their keys.
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
    /// There were more than a few: all names are watched at once.
    wide: bool,
}

/// What is to be watched.
pub(super) enum Ranges {
    /// These names.
    Few(Vec<String>),
    All,
}

impl Ranges {
    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Few(names) if names.is_empty())
    }
}

/// A name is watched until this is dropped, and for a while longer.
#[derive(Debug)]
pub(crate) struct Watched {
    names: Arc<Names>,
    prefix: String,
}

impl Watched {
    pub(super) fn new(names: &Arc<Names>, prefix: String) -> Self {
        names.want(&prefix);
        Self { names: Arc::clone(names), prefix }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.names.leave(&self.prefix);
    }
}

impl Names {
    pub(super) fn ranges(&self) -> Ranges {
        let known = self.known.lock();
        match known.wide {
            true => Ranges::All,
            false => Ranges::Few(known.wanted.keys().cloned().collect()),
        }
    }

    fn want(&self, prefix: &str) {
        let mut known = self.known.lock();
        if let Some(count) = known.wanted.get_mut(prefix) {
            *count += 1;
            if *count == 1 {
                known.idle.retain(|idle| idle != prefix);
            }
            return;
        }
        known.wanted.insert(prefix.to_owned(), 1);
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

    fn leave(&self, prefix: &str) {
        let mut known = self.known.lock();
        let Some(count) = known.wanted.get_mut(prefix) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        if known.wanted.len() > MOST_WATCHED {
            known.wanted.remove(prefix);
        } else {
            known.idle.push_back(prefix.to_owned());
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
        each.map(|number| Watched::new(names, number.to_string())).collect()
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
        assert!(!matches!(names.ranges(), Ranges::Few(each) if each.contains(&"0".to_owned())));
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
