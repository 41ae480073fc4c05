//! The model: what may happen to three nodes and some attempts.

use backend_redlock::protocol::{
    majority_expiry::majority_expiry,
    token::{Token, decide},
    vote::{Tally, Vote, majority, tally},
};
use stateright::{Model, Property};

use super::{
    node::Node,
    state::{NOTHING, Part, Phase, State, Try, canonical, forget},
};

pub(crate) const NODES: usize = 3;

/// Which guards are in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guards {
    pub(crate) write_back: bool,
    pub(crate) counted_only: bool,
    pub(crate) still_ours: bool,
    pub(crate) quarantine: bool,
    pub(crate) clock_floor: bool,
    pub(crate) clock_votes: bool,
    /// What is left of a lost grant stays while its holder may rely on it.
    pub(crate) rest_kept: bool,
    /// Validity is the majority-th largest of the nodes' expiries, not the largest.
    pub(crate) majority_th: bool,
    /// A renewal never gives the lock to a node again.
    pub(crate) reacquires_nothing: bool,
    /// A node with any record refuses writers.
    pub(crate) writers_wait: bool,
    /// A node with a writer's record refuses readers.
    pub(crate) readers_wait: bool,
    /// A reader's number raises the watermark, as a writer's does.
    pub(crate) readers_mark: bool,
    /// Each reader's record ends on its own.
    pub(crate) apart: bool,
}

/// When a record may expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// At any instant. Then only tokens are checked, since exclusion cannot hold.
    Any,
    /// When the last lease set there is over.
    Lease,
}

pub(crate) struct Quorum {
    pub(crate) guards: Guards,
    pub(crate) time: Time,
    pub(crate) tries: usize,
    /// How many of them, from the first on, are readers.
    pub(crate) readers: usize,
    /// An attempt may propose numbers from 1 to this one.
    pub(crate) proposals: u64,
    pub(crate) crashes: u8,
    /// How many clocks may jump ahead and stay there.
    pub(crate) jumps: u8,
    /// How many renewals there are. Each holder sends at most one.
    pub(crate) renewals: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Begin(usize, u64),
    /// The request is read; the reply arrives in time, or not.
    Ask(usize, usize, bool),
    Write(usize, usize, bool),
    Renew(usize),
    Renewal(usize, usize, bool),
    Free(usize, usize),
    /// A period of an attempt is over.
    Spend(usize),
    /// The record of an owner on a node ends.
    Expire(usize, usize),
    Crash(usize),
    Jump(usize),
    Open(usize),
}

impl Quorum {
    fn grant(&self, own: &mut Try, token: u64) {
        let late = own.spent() && self.time == Time::Lease;
        own.phase = if late { Phase::Over(None) } else { Phase::Holding(token) };
        for part in &mut own.parts {
            part.keeps = matches!(part.vote, Vote::Ours(_)).then_some(0);
        }
    }

    fn decide(&self, own: &mut Try) {
        let votes = own.votes();
        if tally(&votes) == Tally::Failed {
            own.phase = Phase::Over(None);
            return;
        }
        match decide(&votes) {
            Token::Agreed(token) => self.grant(own, token),
            Token::WriteBack { number, .. } if !self.guards.write_back => self.grant(own, number),
            Token::WriteBack { number, nodes, needed } => {
                own.phase = Phase::Writing { number, needed };
                for (at, part) in own.parts.iter_mut().enumerate() {
                    let stray = !matches!(part.vote, Vote::Ours(_));
                    if nodes.contains(&at) || (stray && !self.guards.counted_only) {
                        part.written = number;
                    }
                }
            }
            _ => {}
        }
    }

    /// The holder reads a node's answer to its renewal.
    fn renewed(&self, own: &mut Try, at: usize, there: bool, in_line: bool) {
        let part = &mut own.parts[at];
        if !there {
            (part.gone, part.keeps) = (true, None);
        } else if in_line {
            part.keeps = Some(1);
        }
        if own.parts.iter().filter(|part| part.gone).count() >= majority(NODES) {
            own.lost = true;
            for part in &mut own.parts {
                part.freeing = true;
            }
            return;
        }
        let known: Vec<_> = own.parts.iter().map(|part| part.keeps).collect();
        let largest = known.iter().copied().max().flatten();
        let until = if self.guards.majority_th { majority_expiry(&known) } else { largest };
        own.until = own.until.max(until.unwrap_or(0));
    }
}

impl Model for Quorum {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let one = |me| Try {
            shared: me < self.readers,
            phase: Phase::Idle,
            proposed: 0,
            ended: 0,
            until: 0,
            renewed: false,
            lost: false,
            above: 0,
            at_least: 0,
            parts: [NOTHING; NODES],
        };
        let nodes = std::array::from_fn(|_| Node::new());
        let Self { crashes, jumps, renewals, .. } = *self;
        vec![State { tries: (0..self.tries).map(one).collect(), nodes, crashes, jumps, renewals }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (me, own) in state.tries.iter().enumerate() {
            let holding = matches!(own.phase, Phase::Holding(_));
            if own.phase == Phase::Idle {
                steps.extend((1..=self.proposals).map(|number| Step::Begin(me, number)));
            }
            if self.time == Time::Lease && own.ended < own.owed() {
                steps.push(Step::Spend(me));
            }
            if state.renewals > 0 && holding && !own.renewed {
                steps.push(Step::Renew(me));
            }
            for (at, part) in own.parts.iter().enumerate() {
                // Whether the reply arrives matters only to a client that waits for it.
                if part.asked {
                    steps.push(Step::Ask(me, at, false));
                    if own.phase == Phase::Asking {
                        steps.push(Step::Ask(me, at, true));
                    }
                }
                if part.written > 0 {
                    steps.push(Step::Write(me, at, false));
                    if matches!(own.phase, Phase::Writing { .. }) {
                        steps.push(Step::Write(me, at, true));
                    }
                }
                if part.renewing {
                    steps.push(Step::Renewal(me, at, false));
                    if holding && !own.lost {
                        steps.push(Step::Renewal(me, at, true));
                    }
                }
                if part.freeing && (own.spent() || !self.guards.rest_kept) {
                    steps.push(Step::Free(me, at));
                }
            }
        }
        // A record stays for its lease. A node stays in quarantine until every lease is over that
        // was asked for before its crash.
        for (at, node) in state.nodes.iter().enumerate() {
            for record in &node.records {
                if self.time == Time::Any
                    || node.ahead
                    || state.tries[record.owner].ended > record.period
                {
                    steps.push(Step::Expire(at, record.owner));
                }
            }
            let over =
                |owed: &[u8]| state.tries.iter().zip(owed).all(|(own, owed)| own.ended >= *owed);
            if node.quarantine.as_deref().is_some_and(over) {
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
        let highest_of = |of: &dyn Fn(&Try) -> bool| {
            state.tries.iter().filter(|own| of(own)).filter_map(Try::token).max().unwrap_or(0)
        };
        let highest = highest_of(&|_| true);
        let readers = highest_of(&|own| own.shared);
        let writers = highest_of(&|own| !own.shared);
        match step {
            Step::Begin(me, proposed) => {
                let own = &mut state.tries[me];
                own.phase = Phase::Asking;
                own.proposed = proposed;
                (own.above, own.at_least) =
                    if own.shared { (writers, readers) } else { (highest, 0) };
                own.parts = [Part { asked: true, ..NOTHING }; NODES];
            }
            Step::Ask(me, at, heard) => {
                let own = &mut state.tries[me];
                let vote = state.nodes[at].ask(&self.guards, me, own.shared, own.proposed);
                own.parts[at].asked = false;
                if heard {
                    own.parts[at].vote = vote;
                    if tally(&own.votes()) != Tally::Undecided {
                        self.decide(own);
                    }
                }
            }
            Step::Write(me, at, heard) => {
                let own = &mut state.tries[me];
                let number = std::mem::take(&mut own.parts[at].written);
                let taken = state.nodes[at].write(&self.guards, me, number);
                own.parts[at].taken = heard && taken;
                let count = own.parts.iter().filter(|part| part.taken).count();
                if let Phase::Writing { number, needed } = own.phase
                    && count >= needed
                {
                    self.grant(own, number);
                }
            }
            Step::Renew(me) => {
                state.renewals -= 1;
                let own = &mut state.tries[me];
                own.renewed = true;
                for part in &mut own.parts {
                    part.renewing = true;
                }
            }
            Step::Renewal(me, at, heard) => {
                let own = &mut state.tries[me];
                own.parts[at].renewing = false;
                let there = state.nodes[at].renew(&self.guards, me, own.shared);
                if heard {
                    let in_line = !(state.nodes[at].ahead && self.guards.clock_votes);
                    self.renewed(own, at, there, in_line);
                }
            }
            Step::Free(me, at) => {
                state.tries[me].parts[at].freeing = false;
                state.nodes[at].free(me);
            }
            Step::Spend(me) => {
                let own = &mut state.tries[me];
                own.ended += 1;
                if let Phase::Holding(token) = own.phase
                    && own.spent()
                {
                    own.phase = Phase::Over(Some(token));
                }
            }
            Step::Expire(at, owner) => state.nodes[at].end(&self.guards, owner),
            Step::Crash(at) => {
                state.crashes -= 1;
                let owed: Vec<_> = state.tries.iter().map(Try::owed).collect();
                state.nodes[at].crash(self.guards.quarantine.then_some(owed));
            }
            Step::Jump(at) => {
                state.jumps -= 1;
                state.nodes[at].ahead = true;
            }
            // The clock has passed every token stored before the crash.
            Step::Open(at) => {
                let passed = state.nodes.iter().map(|node| node.watermark).max().unwrap_or(0);
                state.nodes[at].quarantine = None;
                state.nodes[at].clock = passed.max(highest) + 1;
            }
        }
        state.tries.iter_mut().for_each(forget);
        canonical(&mut state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one holder, or readers", |model: &Self, state: &State| {
                let holding = |own: &&Try| matches!(own.phase, Phase::Holding(_));
                let holders = || state.tries.iter().filter(holding);
                model.time == Time::Any || holders().count() < 2 || holders().all(|own| own.shared)
            }),
            Property::always("tokens rise", |_, state: &State| {
                let rises = |own: &Try| {
                    own.token().is_none_or(|token| token > own.above && token >= own.at_least)
                };
                // Two readers may have the same token, but a reader and a writer may not.
                let apart = |own: &Try| {
                    let token = own.token();
                    let same = |other: &&Try| token.is_some() && other.token() == token;
                    own.shared || state.tries.iter().filter(same).count() < 2
                };
                state.tries.iter().all(|own| rises(own) && apart(own))
            }),
        ]
    }
}
