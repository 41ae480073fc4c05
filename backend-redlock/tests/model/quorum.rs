//! The model: three nodes, two attempts, and what lies between them.

use backend_redlock::token::{Token, decide, stored, takes_write_back};
use backend_redlock::vote::{Tally, Vote, majority, tally};
use stateright::{Model, Property};

const NODES: usize = 3;

/// Which guards are in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guards {
    pub(crate) write_back: bool,
    pub(crate) counted_only: bool,
    pub(crate) still_ours: bool,
    pub(crate) quarantine: bool,
    pub(crate) clock_floor: bool,
    pub(crate) clock_votes: bool,
}

/// When a record may expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// At any instant: only tokens are judged, for exclusion then rests on nothing.
    Any,
    /// Once its owner believes in it no more.
    Lease,
}

pub(crate) struct Quorum {
    pub(crate) guards: Guards,
    pub(crate) time: Time,
    pub(crate) crashes: u8,
    /// How many clocks may jump ahead for good.
    pub(crate) jumps: u8,
}

/// A request to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Link {
    Idle,
    Sent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Asking,
    Writing {
        number: u64,
        needed: usize,
    },
    Holding(u64),
    /// Over, with the token it had.
    Over(Option<u64>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Try {
    phase: Phase,
    proposed: u64,
    /// Its validity is over: what it wins now counts for nothing.
    spent: bool,
    /// The largest token granted before it began: its own must be above.
    after: u64,
    asked: [Link; NODES],
    votes: [Vote; NODES],
    /// The number of a write-back under way, or 0; it may arrive after the attempt is over.
    written: [u64; NODES],
    taken: [bool; NODES],
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    record: Option<(usize, u64)>,
    watermark: u64,
    quarantined: bool,
    /// Its clock is ahead of the others: records end early.
    ahead: bool,
    clock: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    tries: [Try; 2],
    nodes: [Node; NODES],
    crashes: u8,
    jumps: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Begin(usize, u64),
    /// The request is read; the reply is heard in time, or not.
    Ask(usize, usize, bool),
    Write(usize, usize, bool),
    Spend(usize),
    Expire(usize),
    Crash(usize),
    Jump(usize),
    Open(usize),
}

impl Quorum {
    /// A node reads a request to acquire.
    fn ask(&self, node: &mut Node, me: usize, proposed: u64) -> Vote {
        match node.record {
            _ if node.quarantined => Vote::No,
            Some((owner, number)) if owner == me => self.counted(node, number),
            Some(_) => Vote::No,
            None => {
                let clock = if self.guards.clock_floor { node.clock } else { 0 };
                let number = stored(proposed, proposed.max(clock), node.watermark, 0);
                node.record = Some((me, number));
                node.watermark = number;
                self.counted(node, number)
            }
        }
    }

    /// What the asker makes of a node's yes.
    fn counted(&self, node: &Node, number: u64) -> Vote {
        if node.ahead && self.guards.clock_votes { Vote::No } else { Vote::Ours(number) }
    }

    /// A node reads a write-back.
    fn write(&self, node: &mut Node, me: usize, number: u64) -> bool {
        let own = node.record.filter(|(owner, _)| *owner == me).map(|(_, own)| own);
        if self.guards.still_ours && !takes_write_back(own, number) {
            return false;
        }
        if let Some(record) = &mut node.record {
            record.1 = record.1.max(number);
        }
        node.watermark = node.watermark.max(number);
        true
    }

    fn grant(&self, own: &mut Try, token: u64) {
        let late = own.spent && self.time == Time::Lease;
        own.phase = if late { Phase::Over(None) } else { Phase::Holding(token) };
    }

    fn decide(&self, own: &mut Try) {
        if tally(&own.votes) == Tally::Failed {
            own.phase = Phase::Over(None);
            return;
        }
        match decide(&own.votes) {
            Token::Agreed(token) => self.grant(own, token),
            Token::WriteBack { number, .. } if !self.guards.write_back => self.grant(own, number),
            Token::WriteBack { number, nodes, needed } => {
                own.phase = Phase::Writing { number, needed };
                for node in 0..NODES {
                    let counted = nodes.contains(&node);
                    let stray = !matches!(own.votes[node], Vote::Ours(_));
                    if counted || (stray && !self.guards.counted_only) {
                        own.written[node] = number;
                    }
                }
            }
            _ => {}
        }
    }
}

/// The nodes are alike: states that differ by their order only are one.
fn canonical(state: &mut State) {
    let column = |state: &State, at: usize| {
        let part = |own: &Try| (own.asked[at], own.votes[at], own.written[at], own.taken[at]);
        (state.nodes[at].clone(), part(&state.tries[0]), part(&state.tries[1]))
    };
    let mut columns: Vec<_> = (0..NODES).map(|at| column(state, at)).collect();
    columns.sort_unstable();
    for (at, (node, first, second)) in columns.into_iter().enumerate() {
        state.nodes[at] = node;
        for (own, (asked, vote, written, taken)) in state.tries.iter_mut().zip([first, second]) {
            (own.asked[at], own.votes[at]) = (asked, vote);
            (own.written[at], own.taken[at]) = (written, taken);
        }
    }
}

fn token(phase: Phase) -> Option<u64> {
    match phase {
        Phase::Holding(token) => Some(token),
        Phase::Over(token) => token,
        _ => None,
    }
}

impl Model for Quorum {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let one = Try {
            phase: Phase::Idle,
            proposed: 0,
            spent: false,
            after: 0,
            asked: [Link::Idle; NODES],
            votes: [Vote::Open; NODES],
            written: [0; NODES],
            taken: [false; NODES],
        };
        let tries = [one.clone(), one];
        let nodes = Default::default();
        vec![State { tries, nodes, crashes: self.crashes, jumps: self.jumps }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (me, own) in state.tries.iter().enumerate() {
            if own.phase == Phase::Idle {
                steps.extend([Step::Begin(me, 1), Step::Begin(me, 2)]);
            }
            if self.time == Time::Lease && own.phase != Phase::Idle && !own.spent {
                steps.push(Step::Spend(me));
            }
            for node in 0..NODES {
                // Whether the reply is heard matters only to who waits for it.
                if own.asked[node] == Link::Sent {
                    steps.push(Step::Ask(me, node, false));
                    if own.phase == Phase::Asking {
                        steps.push(Step::Ask(me, node, true));
                    }
                }
                if own.written[node] > 0 {
                    steps.push(Step::Write(me, node, false));
                    if matches!(own.phase, Phase::Writing { .. }) {
                        steps.push(Step::Write(me, node, true));
                    }
                }
            }
        }
        // What an attempt still believes in keeps its record, and a crashed node's quarantine lasts
        // until nobody believes in what it may have forgotten.
        let believed = |me: usize| state.tries[me].phase != Phase::Idle && !state.tries[me].spent;
        for (at, node) in state.nodes.iter().enumerate() {
            match node.record {
                Some((owner, _)) if self.time == Time::Any || node.ahead || !believed(owner) => {
                    steps.push(Step::Expire(at));
                }
                _ => {}
            }
            if node.quarantined && !believed(0) && !believed(1) {
                steps.push(Step::Open(at));
            }
            if state.crashes > 0 {
                steps.push(Step::Crash(at));
            }
            if state.jumps > 0 {
                steps.push(Step::Jump(at));
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        let highest = state.tries.iter().filter_map(|own| token(own.phase)).max().unwrap_or(0);
        match step {
            Step::Begin(me, proposed) => {
                let own = &mut state.tries[me];
                own.phase = Phase::Asking;
                own.proposed = proposed;
                own.after = highest;
                own.asked = [Link::Sent; NODES];
            }
            Step::Ask(me, at, heard) => {
                let vote = self.ask(&mut state.nodes[at], me, state.tries[me].proposed);
                let own = &mut state.tries[me];
                own.asked[at] = Link::Idle;
                if heard {
                    own.votes[at] = vote;
                    if tally(&own.votes) != Tally::Undecided {
                        self.decide(own);
                    }
                }
            }
            Step::Write(me, at, heard) => {
                let number = std::mem::take(&mut state.tries[me].written[at]);
                let taken = self.write(&mut state.nodes[at], me, number);
                let own = &mut state.tries[me];
                own.taken[at] = heard && taken;
                let count = own.taken.iter().filter(|taken| **taken).count();
                if let Phase::Writing { number, needed } = own.phase
                    && count >= needed
                {
                    self.grant(own, number);
                }
            }
            Step::Spend(me) => {
                let own = &mut state.tries[me];
                own.spent = true;
                if let Phase::Holding(token) = own.phase {
                    own.phase = Phase::Over(Some(token));
                }
            }
            Step::Expire(at) => state.nodes[at].record = None,
            Step::Crash(at) => {
                state.crashes -= 1;
                let quarantined = self.guards.quarantine;
                let ahead = state.nodes[at].ahead;
                state.nodes[at] = Node { quarantined, ahead, ..Node::default() };
            }
            Step::Jump(at) => {
                state.jumps -= 1;
                state.nodes[at].ahead = true;
            }
            // The clock has passed every token stored before the crash.
            Step::Open(at) => {
                let passed = state.nodes.iter().map(|node| node.watermark).max().unwrap_or(0);
                state.nodes[at].quarantined = false;
                state.nodes[at].clock = passed.max(highest) + 1;
            }
        }
        for own in &mut state.tries {
            if own.phase == Phase::Over(None) {
                own.after = 0;
            }
            if matches!(own.phase, Phase::Holding(_) | Phase::Over(_)) {
                own.votes = [Vote::Open; NODES];
                own.taken = [false; NODES];
            }
        }
        canonical(&mut state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one holder", |model: &Self, state: &State| {
                let holders = |own: &&Try| matches!(own.phase, Phase::Holding(_));
                model.time == Time::Any || state.tries.iter().filter(holders).count() < majority(2)
            }),
            Property::always("tokens rise", |_, state: &State| {
                let [a, b] = [token(state.tries[0].phase), token(state.tries[1].phase)];
                let above = |own: &Try| token(own.phase).is_none_or(|token| token > own.after);
                (a.is_none() || a != b) && state.tries.iter().all(above)
            }),
        ]
    }
}
