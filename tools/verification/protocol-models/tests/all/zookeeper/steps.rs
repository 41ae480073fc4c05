//! The rules after an election, and the steps that clients, servers and operator may take.

use stateright::{Model, Property};

use super::state::{Budget, CLIENTS, Client, Data, LEASE, SESSION, Session, State};

/// Which rules are in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Nothing is granted in an epoch that is not open.
    pub(super) meets: bool,
    /// An epoch that nobody knows is waited for.
    pub(super) waits: bool,
    /// A session writes its node with a check of the version, and is given up if it is another one.
    pub(super) checks_version: bool,
    /// A write counts as unknown from before it is sent, and not only after its answer was missed.
    pub(super) notes_before: bool,
    /// ZooKeeper keeps a session that is given up until its guard would end.
    pub(super) keeps_session: bool,
    /// A pause of a lease between two writes breaks the chain.
    pub(super) unbroken: bool,
    /// The chain of a new session begins in the epoch in which it was opened.
    pub(super) own_epoch: bool,
    /// A client that does not know an epoch which is waited for waits anew in the next one.
    pub(super) waits_anew: bool,
    /// A waiter is given nothing before it has met the epoch of each answered write of its client:
    /// such a write counts for its validity.
    pub(super) meets_writes: bool,
    /// A copy that is restored is a lease old.
    pub(super) old_copies: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Store {
    pub(super) rules: Rules,
    /// How often each may happen.
    pub(super) budget: Budget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Open(usize),
    Write(usize),
    WriteWithoutAnswer(usize),
    /// The write is carried out, and its sender is gone before the answer.
    WriteAndForget(usize),
    /// Writes the node and the settings in one step.
    Meet(usize),
    Acquire(usize),
    /// Makes an entry, and waits.
    Enqueue(usize),
    /// Writes a node that no restore has changed.
    WriteAnother(usize),
    /// A waiter reads that it is the first.
    Claim(usize),
    Renew(usize),
    Expire,
    /// The session of a waiter ends.
    ExpireWaiter,
    Tick,
    Elect,
    Copy,
    /// The number of the epoch follows that of the copy, or the last one.
    Restore {
        follows_copy: bool,
    },
}

/// What becomes of the answer to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Comes,
    IsLost,
    HasNoReader,
}

impl Store {
    /// Writes the node of a client. `None` if it cannot; the session may have been given up.
    fn write(&self, state: &mut State, me: usize, answer: Answer) -> Option<()> {
        state.left.writes = state.left.writes.checked_sub(1)?;
        let (data, client) = (&mut state.data, &mut state.clients[me]);
        let session = client.session.as_mut()?;
        let stored = data.nodes[me].filter(|(number, _)| *number == session.number);
        let version = stored.map(|(_, version)| version);
        if session.is_unknown && version == Some(session.version + 1) {
            (session.version, session.is_unknown) = (session.version + 1, false);
        }
        if self.rules.checks_version && version != Some(session.version) {
            // The guard learns of it later.
            client.session = None;
            if !self.rules.keeps_session {
                data.nodes[me] = None;
                data.lock = data.lock.filter(|holder| *holder != me);
            }
            // A session that has ended has no node.
            state.gave_up_early |= !state.was_restored && version.is_some();
            return Some(());
        }
        let next = version.unwrap_or(session.version) + 1;
        data.nodes[me] = Some((session.number, next));
        if answer != Answer::Comes {
            session.is_unknown |= answer == Answer::IsLost || self.rules.notes_before;
            return Some(());
        }
        if session.idle >= LEASE && self.rules.unbroken {
            session.unbroken_since = data.epoch;
        }
        (session.confirmed, session.idle) = (session.confirmed.min(session.idle), 0);
        (session.version, session.is_unknown) = (next, false);
        (session.epoch, session.seen_epoch) = (data.epoch, data.epoch);
        Some(())
    }

    /// As `enter` of the real settings.
    fn meet(&self, state: &mut State, session: Session) {
        let settings = &mut state.data.settings;
        let open = settings.open_epoch();
        if session.epoch <= open {
            return;
        }
        if session.unbroken_since <= open || !self.rules.waits {
            (settings.epoch, settings.unproven) = (session.epoch, None);
            state.has_opened = true;
            return;
        }
        let left = match settings.unproven {
            Some((epoch, left)) if session.unbroken_since <= epoch || !self.rules.waits_anew => {
                left
            }
            _ => LEASE,
        };
        (settings.epoch, settings.unproven) = (open, Some((session.epoch, left)));
    }
}

impl Model for Store {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            data: Data::default(),
            last_epoch: 0,
            copy: None,
            clients: [Client::default(); CLIENTS],
            sessions: 0,
            left: self.budget,
            was_restored: false,
            gave_up_early: false,
            has_opened: false,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        use Step::*;
        for me in 0..CLIENTS {
            steps.extend([Open(me), Write(me), WriteWithoutAnswer(me), WriteAndForget(me)]);
            steps.extend([Meet(me), Acquire(me), Renew(me)]);
            steps.extend([Enqueue(me), WriteAnother(me), Claim(me)]);
        }
        steps.extend([Expire, ExpireWaiter, Tick, Elect, Copy]);
        steps.extend([Restore { follows_copy: false }, Restore { follows_copy: true }]);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = *last;
        // `None` if the step cannot be taken now.
        let possible = |yes: bool| yes.then_some(());
        match step {
            Step::Open(me) => {
                possible(state.clients[me].session.is_none())?;
                state.left.sessions = state.left.sessions.checked_sub(1)?;
                let (number, epoch) = (state.sessions, state.data.epoch);
                state.sessions += 1;
                state.data.nodes[me] = Some((number, 0));
                let unbroken_since = if self.rules.own_epoch { epoch } else { 0 };
                let (version, is_unknown, idle, confirmed) = (0, false, 0, 0);
                let session = Session {
                    number,
                    version,
                    is_unknown,
                    idle,
                    confirmed,
                    epoch,
                    seen_epoch: epoch,
                    unbroken_since,
                };
                (state.clients[me].session, state.clients[me].waits) = (Some(session), false);
            }
            Step::Write(me) => self.write(&mut state, me, Answer::Comes)?,
            Step::WriteWithoutAnswer(me) => {
                state.left.lost_answers = state.left.lost_answers.checked_sub(1)?;
                self.write(&mut state, me, Answer::IsLost)?;
            }
            Step::WriteAndForget(me) => {
                state.left.lost_answers = state.left.lost_answers.checked_sub(1)?;
                self.write(&mut state, me, Answer::HasNoReader)?;
            }
            Step::Meet(me) => {
                possible(state.data.settings.open_epoch() < state.data.epoch)?;
                self.write(&mut state, me, Answer::Comes)?;
                if let Some(session) = state.clients[me].session {
                    self.meet(&mut state, session);
                }
            }
            Step::Acquire(me) => {
                let (data, client) = (&mut state.data, &mut state.clients[me]);
                let is_open = data.settings.open_epoch() >= data.epoch || !self.rules.meets;
                possible(is_open && data.lock.is_none() && data.waiter.is_none())?;
                possible(client.valid == 0)?;
                client.held_by = client.session?.number;
                (data.lock, client.valid, data.queue_epoch) = (Some(me), LEASE, data.epoch);
            }
            Step::Enqueue(me) => {
                state.left.waits = state.left.waits.checked_sub(1)?;
                possible(state.data.waiter.is_none() && state.lives(me))?;
                (state.data.waiter, state.data.queue_epoch) = (Some(me), state.data.epoch);
                let session = state.clients[me].session.as_mut()?;
                (session.confirmed, session.seen_epoch) = (session.idle, state.data.epoch);
                state.clients[me].waits = true;
            }
            Step::WriteAnother(me) => {
                possible(state.clients[me].waits && state.lives(me))?;
                let session = state.clients[me].session.as_mut()?;
                session.confirmed = session.confirmed.min(session.idle);
                session.seen_epoch = state.data.epoch;
            }
            Step::Claim(me) => {
                let lives = state.lives(me);
                let (data, client) = (&mut state.data, &mut state.clients[me]);
                possible(lives && client.waits && data.waiter == Some(me) && data.lock.is_none())?;
                let session = client.session?;
                let seen = if self.rules.meets_writes { session.seen_epoch } else { session.epoch };
                possible(data.settings.open_epoch() >= data.queue_epoch.max(seen))?;
                client.valid = (SESSION - session.confirmed).min(LEASE);
                possible(client.valid > 0)?;
                (client.held_by, client.waits) = (session.number, false);
                (data.lock, data.waiter) = (Some(me), None);
            }
            Step::Renew(me) => {
                let client = &mut state.clients[me];
                possible(client.valid > 0)?;
                let lives = client.session.is_some_and(|it| it.number == client.held_by);
                client.valid = if lives && state.data.lock == Some(me) { LEASE } else { 0 };
            }
            Step::Expire => {
                possible(state.clients[state.data.lock?].valid == 0)?;
                (state.data.lock, state.data.queue_epoch) = (None, state.data.epoch);
            }
            Step::ExpireWaiter => {
                let waiter = state.data.waiter?;
                let session = state.clients[waiter].session;
                possible(session.is_none_or(|session| session.confirmed == SESSION))?;
                (state.data.waiter, state.data.queue_epoch) = (None, state.data.epoch);
                state.data.nodes[waiter] = None;
            }
            Step::Tick => state.tick(),
            Step::Elect => {
                state.left.elections = state.left.elections.checked_sub(1)?;
                state.data.epoch += 1;
            }
            Step::Copy => {
                possible(state.left.restores > 0)?;
                state.copy = Some((state.data, 0));
            }
            Step::Restore { follows_copy } => {
                let (data, age) = state.copy?;
                possible(age == LEASE || !self.rules.old_copies)?;
                state.left.restores = state.left.restores.checked_sub(1)?;
                state.was_restored = true;
                let epoch = if follows_copy { data.epoch } else { state.last_epoch };
                state.data = Data { epoch: epoch + 1, ..data };
            }
        }
        state.last_epoch = state.last_epoch.max(state.data.epoch);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one holder", |_, state: &State| {
                state.clients.iter().any(|client| client.valid == 0)
            }),
            Property::always(NO_EARLY_END, |_, state: &State| !state.gave_up_early),
            Property::sometimes(OPENS, |_, state: &State| state.has_opened),
        ]
    }
}

pub(super) const NO_EARLY_END: &str = "a session is given up only after a restore";
pub(super) const OPENS: &str = "a client opens an epoch by what it knows";
