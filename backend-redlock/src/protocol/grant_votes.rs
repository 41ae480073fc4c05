//! What the client remembers of a grant: what each node has stored of it.

use std::sync::{Arc, MutexGuard};

use lock_core::{Grant, Instant, LossReason, Mutex};

#[derive(Debug)]
pub(crate) struct GrantVotes {
    /// The number of the attempt.
    pub(crate) attempt: u64,
    /// This client knows of no other attempt of this owner. So if a release finds something, this
    /// attempt got it. (If the core repeated a lost attempt, it abandons the owner after the
    /// release.)
    lone: bool,
    parts: Mutex<Parts>,
}

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) nodes: Vec<Part>,
    /// The latest end of validity that the holder knows. After it the holder does not rely on the
    /// grant.
    pub(crate) reported: Instant,
    /// A majority was found without it, and the holder knows.
    pub(crate) lost: Option<LossReason>,
    /// It was released. If a node gives the lock late, that is taken back.
    pub(crate) released: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    /// Until when the node keeps the lock at least, as far as counted replies show.
    pub(crate) until: Option<Instant>,
    /// The node may have carried out the attempt, or may still do so, and the client will not learn
    /// when.
    pub(crate) doubtful: bool,
    /// Whether the node was asked at all.
    pub(crate) asked: bool,
    /// Its answer to the release: whether it held the lock.
    freed: Option<bool>,
    /// The reply that the node gave the lock arrived after the release.
    late: bool,
}

impl Part {
    pub(crate) fn new(until: Option<Instant>, doubtful: bool, asked: bool) -> Self {
        Self { until, doubtful, asked, ..Self::default() }
    }
}

impl GrantVotes {
    pub(crate) fn new(attempt: u64, lone: bool, nodes: Vec<Part>, reported: Instant) -> Self {
        let parts = Mutex::new(Parts { nodes, reported, lost: None, released: false });
        Self { attempt, lone, parts }
    }

    pub(crate) fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock()
    }

    /// Notes the release. Returns whether the client knows of all nodes what they gave.
    pub(crate) fn release(&self) -> bool {
        let mut parts = self.parts();
        parts.released = true;
        parts.nodes.iter().all(|part| !part.doubtful)
    }

    pub(crate) fn of(grant: &Grant) -> Option<Arc<Self>> {
        Arc::clone(grant.state.as_ref()?).downcast().ok()
    }

    /// Notes a node's late reply to the attempt: whether the node gave the lock or may have, and
    /// whether that is certain. Returns whether to take it back.
    ///
    /// A release mostly follows at once on the same connection, and removes what it finds. So if
    /// the node has not answered the release yet, that answer decides ([`freed`](Self::freed)).
    pub(crate) fn late_reply(&self, at: usize, gave: bool, known: bool) -> bool {
        let mut parts = self.parts();
        let released = parts.released;
        let part = &mut parts.nodes[at];
        part.doubtful = !known;
        if !released || !gave {
            return false;
        }
        if !known || !self.lone {
            return true;
        }
        part.late = true;
        part.freed == Some(false)
    }

    /// Notes a node's answer to the release, or that none will come. Returns whether to ask the
    /// node again.
    pub(crate) fn freed(&self, at: usize, held: Option<bool>) -> bool {
        let part = &mut self.parts().nodes[at];
        // If the node is asked again, it may still answer the first request.
        part.freed = Some(held == Some(true));
        held.is_none() || part.late && held == Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grant that was released before its only node had answered.
    fn given_back(lone: bool) -> GrantVotes {
        let reported = Instant::default();
        let held = GrantVotes::new(1, lone, vec![Part::new(None, false, true)], reported);
        held.parts().released = true;
        held
    }

    #[test]
    fn what_the_release_finds_is_not_taken_back_again() {
        let held = given_back(true);
        assert!(!held.late_reply(0, true, true) && !held.freed(0, Some(true)));
        let held = given_back(true);
        assert!(!held.freed(0, Some(true)) && !held.late_reply(0, true, true));
    }

    #[test]
    fn what_is_given_after_the_release_is_taken_back() {
        let held = given_back(true);
        assert!(!held.freed(0, Some(false)) && held.late_reply(0, true, true));
        let held = given_back(true);
        assert!(held.freed(0, None) && held.late_reply(0, true, true));
    }

    #[test]
    fn a_late_grant_that_the_release_missed_is_taken_back() {
        let held = given_back(true);
        assert!(!held.late_reply(0, true, true) && held.freed(0, Some(false)));
    }

    #[test]
    fn if_the_owner_asked_twice_the_release_may_have_found_the_other() {
        let held = given_back(false);
        assert!(!held.freed(0, Some(true)) && held.late_reply(0, true, true));
    }

    #[test]
    fn what_is_not_known_is_taken_back_at_once() {
        let held = given_back(true);
        assert!(held.late_reply(0, true, false) && held.parts().nodes[0].doubtful);
    }

    #[test]
    fn what_is_held_stays() {
        let held = given_back(true);
        held.parts().released = false;
        assert!(!held.late_reply(0, true, true) && !held.late_reply(0, true, false));
    }
}
