//! The state of a search, and its properties.

use backend_object_store::cas::{Answer, Nonce, Record};
use lock_core::{FencingToken, OwnerId};
use stateright::{Model, Property};

use super::steps::Action;

/// What may be left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The store writes only if the version is the expected one.
    pub(super) compares: bool,
    /// A looker waits for as long as the holder may believe, whatever the rates of their clocks.
    pub(super) margin: bool,
    /// A looker counts from the answer of its read, not from the sending.
    pub(super) from_answer: bool,
    /// Each write has a new nonce. Otherwise the version is that of the other content.
    pub(super) fresh_nonce: bool,
    /// An abandon writes, whatever is there.
    pub(super) abandon_writes: bool,
    /// Nobody deletes the object.
    pub(super) objects_stay: bool,
}

/// The model, with the limits of a search.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    pub(super) rules: Rules,
    /// Writes that clients send.
    pub(super) writes: u8,
    pub(super) ticks: u8,
    pub(super) crashes: u8,
    pub(super) forces: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) now: u8,
    pub(super) record: Option<Record>,
    pub(super) clients: [Client; 2],
    /// All writes that were sent.
    pub(super) writes: Vec<Write>,
    pub(super) abandoned: Vec<OwnerId>,
    /// The last token of the object, even if it was deleted.
    pub(super) last: FencingToken,
    pub(super) token_repeats: bool,
    /// Who was granted the lock.
    pub(super) held: [bool; 2],
    pub(super) crashes: u8,
    pub(super) forced: u8,
    pub(super) deleted: bool,
}

/// A conditional write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Write {
    pub(super) record: Record,
    pub(super) expected: Option<Record>,
    pub(super) answer: Answer,
    /// How often the store has carried it out.
    pub(super) deliveries: u8,
}

/// What a client is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Goal {
    Acquire,
    Renew,
    Release,
    Abandon,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    /// A read was sent at this time.
    Reading(u8),
    /// The write of this index has no answer yet.
    Writing(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) owner: OwnerId,
    pub(super) goal: Goal,
    pub(super) phase: Phase,
    /// Before the call.
    pub(super) from: u8,
    /// The writes of this call.
    pub(super) sent: Vec<usize>,
    /// The last beat, and when it was first seen.
    pub(super) seen: Option<(Nonce, u8)>,
    /// Until when the client believes that it has the lock.
    pub(super) valid_until: u8,
    /// The last record that it wrote as the holder.
    pub(super) known: Option<Record>,
}

impl Client {
    pub(super) fn new(owner: u128) -> Self {
        Self {
            owner: OwnerId::from_bits(owner),
            goal: Goal::Acquire,
            phase: Phase::Idle,
            from: 0,
            sent: Vec::new(),
            seen: None,
            valid_until: 0,
            known: None,
        }
    }
}

impl Model for Bucket {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            record: None,
            clients: [Client::new(100), Client::new(200)],
            writes: Vec::new(),
            abandoned: Vec::new(),
            last: FencingToken::ZERO,
            token_repeats: false,
            held: [false; 2],
            crashes: 0,
            forced: 0,
            deleted: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.possible(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.carry_out(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            // An operator who frees a lock takes it from a holder that believes in it.
            Property::always("one holder", |_, state: &State| {
                let valid = |client: &Client| state.now < client.valid_until;
                state.forced > 0 || !state.clients.iter().all(valid)
            }),
            Property::always("tokens rise", |_, state: &State| !state.token_repeats),
            Property::always("an abandoned owner has nothing", |_, state: &State| {
                let holder = state.record.as_ref().and_then(|record| record.holder.as_ref());
                holder.is_none_or(|held| !state.abandoned.contains(&held.owner))
            }),
            Property::sometimes("both hold in turn", |_, state: &State| state.held == [true; 2]),
        ]
    }
}
