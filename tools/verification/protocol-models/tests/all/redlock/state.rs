//! A state of the model: the nodes, the attempts, and the messages between them.

use backend_redlock::protocol::vote::Vote;

use super::{node::Node, quorum::NODES};

/// The messages between one attempt and one node, and what the attempt knows of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Part {
    /// A request that the node has not read yet. It may read it after the attempt is over.
    pub(crate) asked: bool,
    pub(crate) vote: Vote,
    /// The number of a write-back that was not read yet, or 0.
    pub(crate) written: u64,
    pub(crate) taken: bool,
    /// A renewal that was not read yet.
    pub(crate) renewing: bool,
    /// A renewal found no lock there.
    pub(crate) gone: bool,
    /// The last period for which the node keeps the lock, as far as counted answers show.
    pub(crate) keeps: Option<u8>,
    /// What is left there must be released.
    pub(crate) freeing: bool,
}

pub(crate) const NOTHING: Part = Part {
    asked: false,
    vote: Vote::Open,
    written: 0,
    taken: false,
    renewing: false,
    gone: false,
    keeps: None,
    freeing: false,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    Asking,
    Writing {
        number: u64,
        needed: usize,
    },
    Holding(u64),
    /// Over, with the token that it had.
    Over(Option<u64>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Try {
    pub(crate) shared: bool,
    pub(crate) phase: Phase,
    pub(crate) proposed: u64,
    /// How many periods are over: period 0 is the lease of the request, period 1 that of the
    /// renewal.
    pub(crate) ended: u8,
    /// The period at whose end its validity ends.
    pub(crate) until: u8,
    pub(crate) renewed: bool,
    pub(crate) lost: bool,
    /// The largest token granted, before it began, to owners that it excludes. Its own token must
    /// be above.
    pub(crate) above: u64,
    /// The largest token granted to a reader before it began, if it is a reader. Its own token may
    /// be equal.
    pub(crate) at_least: u64,
    pub(crate) parts: [Part; NODES],
}

impl Try {
    pub(crate) fn spent(&self) -> bool {
        self.ended > self.until
    }

    pub(crate) fn votes(&self) -> Vec<Vote> {
        self.parts.iter().map(|part| part.vote).collect()
    }

    /// How many periods must be over until every lease that it asked for before now has ended.
    pub(crate) fn owed(&self) -> u8 {
        u8::from(self.phase != Phase::Idle) + u8::from(self.renewed)
    }

    pub(crate) fn token(&self) -> Option<u64> {
        match self.phase {
            Phase::Holding(token) => Some(token),
            Phase::Over(token) => token,
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) tries: Vec<Try>,
    pub(crate) nodes: [Node; NODES],
    pub(crate) crashes: u8,
    pub(crate) jumps: u8,
    pub(crate) renewals: u8,
}

/// The nodes are alike: states that differ only in their order are one state.
pub(crate) fn canonical(state: &mut State) {
    let column = |at: usize| {
        let parts: Vec<_> = state.tries.iter().map(|own| own.parts[at]).collect();
        (state.nodes[at].clone(), parts)
    };
    let mut columns: Vec<_> = (0..NODES).map(column).collect();
    columns.sort_unstable();
    for (at, (node, parts)) in columns.into_iter().enumerate() {
        state.nodes[at] = node;
        for (own, part) in state.tries.iter_mut().zip(parts) {
            own.parts[at] = part;
        }
    }
}

/// Removes what makes no difference any more.
pub(crate) fn forget(own: &mut Try) {
    if own.phase == Phase::Over(None) {
        (own.above, own.at_least) = (0, 0);
    }
    let holding = matches!(own.phase, Phase::Holding(_)) && !own.lost;
    for part in &mut own.parts {
        if matches!(own.phase, Phase::Holding(_) | Phase::Over(_)) {
            (part.vote, part.taken) = (Vote::Open, false);
        }
        if !holding {
            (part.gone, part.keeps) = (false, None);
        }
    }
}
