//! The steps of clients, the store and an operator.

use backend_object_store::cas::{Answer, Decision, Nonce, Record, Step, Verb, decide};
use lock_core::{FencingToken, OwnerId, OwnerLabel};

use super::{
    BELIEVED,
    state::{Bucket, Client, Goal, Phase, State, Write},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Tick,
    /// A client begins a call.
    Begin(usize, Goal),
    /// The store serves a read, and the answer comes.
    Read(usize),
    /// The store reads a write.
    Deliver(usize),
    /// A client learns that its write was carried out.
    Learn(usize),
    /// A client does not wait for an answer any longer, and reads.
    Reread(usize),
    Crash(usize),
    Force,
    Delete,
}

/// The client's wall clock: the first one's is far ahead.
fn wall(client: usize) -> u64 {
    if client == 0 { 1_000 } else { 10 }
}

impl Bucket {
    pub(super) fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < self.ticks {
            actions.push(Action::Tick);
        }
        for (at, client) in state.clients.iter().enumerate() {
            let may_write = state.writes.len() < self.writes.into();
            match &client.phase {
                Phase::Idle if !may_write => {}
                Phase::Idle if state.now < client.valid_until => {
                    actions.push(Action::Begin(at, Goal::Renew));
                    actions.push(Action::Begin(at, Goal::Release));
                }
                Phase::Idle => actions.push(Action::Begin(at, Goal::Acquire)),
                Phase::Reading(_) => actions.push(Action::Read(at)),
                Phase::Writing(write) => {
                    if state.writes[*write].deliveries > 0 {
                        actions.push(Action::Learn(at));
                    }
                    if may_write {
                        actions.push(Action::Reread(at));
                    }
                    if client.goal == Goal::Acquire && may_write {
                        actions.push(Action::Begin(at, Goal::Abandon));
                    }
                }
            }
            if state.crashes < self.crashes {
                actions.push(Action::Crash(at));
            }
        }
        // A refusal changes nothing, and is no more to its client than no answer.
        let works = |write: &Write| write.deliveries < 2 && self.is_written(state, write);
        let writes = state.writes.iter().enumerate().filter(|(_, write)| works(write));
        actions.extend(writes.map(|(at, _)| Action::Deliver(at)));
        if state.forced < self.forces && state.record.is_some() {
            actions.push(Action::Force);
        }
        if !self.rules.objects_stay && !state.deleted && state.record.is_some() {
            actions.push(Action::Delete);
        }
    }

    pub(super) fn carry_out(&self, state: &mut State, action: Action) {
        match action {
            Action::Tick => state.now += 1,
            Action::Begin(at, goal) => {
                let now = state.now;
                let client = &mut state.clients[at];
                (client.goal, client.from) = (goal, now);
                client.sent.clear();
                if goal == Goal::Release {
                    client.valid_until = 0;
                }
                match client.known.clone() {
                    Some(known) => self.decide(state, at, Some(known)),
                    _ => client.phase = Phase::Reading(now),
                }
            }
            Action::Read(at) => {
                let record = state.record.clone();
                if let Phase::Reading(sent) = state.clients[at].phase {
                    self.receive(state, at, sent, record);
                }
            }
            Action::Deliver(at) => Self::deliver(state, at),
            Action::Learn(at) => {
                if let Phase::Writing(write) = state.clients[at].phase {
                    Self::done(state, at, write);
                }
            }
            Action::Reread(at) => {
                state.clients[at].phase = Phase::Reading(state.now);
            }
            Action::Crash(at) => {
                state.crashes += 1;
                state.clients[at] = Client::new(state.clients[at].owner.to_bits() + 50);
            }
            Action::Force => {
                state.forced += 1;
                let holder = state.record.as_ref().and_then(|record| record.holder.as_ref());
                let Some(owner) = holder.map(|held| held.owner) else { return };
                let step = Step { owner, verb: Verb::Force };
                if let Decision::Write(record, _) =
                    decide(state.record.as_ref(), false, &step, Nonce::of(1_000), 0)
                {
                    state.record = Some(record);
                }
            }
            Action::Delete => (state.record, state.deleted) = (None, true),
        }
    }

    fn receive(&self, state: &mut State, at: usize, sent: u8, record: Option<Record>) {
        let now = state.now;
        let client = &mut state.clients[at];
        let beat = record.as_ref().and_then(|record| record.holder.as_ref()).map(|held| &held.beat);
        let first = if self.rules.from_answer { now } else { sent };
        match (beat, &client.seen) {
            (Some(beat), Some((seen, _))) if beat == seen => {}
            (beat, _) => client.seen = beat.map(|beat| (beat.clone(), first)),
        }
        let is_in = |nonce: &Nonce, record: &Record| {
            record.nonce == *nonce || record.freed.as_ref() == Some(nonce)
        };
        let own = client.sent.iter().copied().find(|write| {
            let nonce = &state.writes[*write].record.nonce;
            record.as_ref().is_some_and(|record| is_in(nonce, record))
        });
        match own {
            Some(write) if self.rules.fresh_nonce => Self::done(state, at, write),
            _ => self.decide(state, at, record),
        }
    }

    /// Decides by a record, and sends the write.
    fn decide(&self, state: &mut State, at: usize, record: Option<Record>) {
        let client = &mut state.clients[at];
        let owner = client.owner;
        let verb = match client.goal {
            Goal::Acquire => Verb::Acquire {
                label: OwnerLabel::of_this_process(),
                lease_ms: 1,
                floor: FencingToken::ZERO,
            },
            Goal::Renew => Verb::Renew(1),
            Goal::Release => Verb::Release(None),
            Goal::Abandon => Verb::Abandon,
        };
        let beat = record.as_ref().and_then(|record| record.holder.as_ref()).map(|held| &held.beat);
        let seen = client.seen.as_ref().filter(|(seen, _)| Some(seen) == beat);
        let wait = if self.rules.margin { BELIEVED } else { BELIEVED - 1 };
        // A holder's own beat is in its own record.
        let is_over = seen.is_some_and(|(_, first)| first + wait <= state.now);
        let nonce = Nonce::of(state.writes.len() as u128 + 1);
        match decide(record.as_ref(), is_over, &Step { owner, verb }, nonce, wall(at)) {
            Decision::Answer(answer) => {
                client.phase = Phase::Idle;
                if answer == Answer::NotHeld {
                    Self::leave(client);
                }
            }
            Decision::Write(mut new, answer) => {
                if !self.rules.fresh_nonce {
                    // The list of the abandoned and the last release would be another content.
                    new.abandoned.clear();
                    new.freed = None;
                }
                let nothing = client.goal == Goal::Abandon
                    && record.as_ref().map(|record| &record.holder) == Some(&new.holder);
                if nothing && !self.rules.abandon_writes {
                    state.abandoned.push(owner);
                    client.phase = Phase::Idle;
                    Self::leave(client);
                    return;
                }
                if state.writes.len() >= self.writes.into() {
                    client.phase = Phase::Idle;
                    // The search ends here for this client.
                    client.known = None;
                    return;
                }
                client.sent.push(state.writes.len());
                client.phase = Phase::Writing(state.writes.len());
                state.writes.push(Write { record: new, expected: record, answer, deliveries: 0 });
            }
        }
    }

    /// The version of a record, as the store compares it.
    fn version(&self, record: &Option<Record>) -> Option<Record> {
        let mut version = record.clone()?;
        if !self.rules.fresh_nonce {
            version.nonce = Nonce::of(0);
        }
        Some(version)
    }

    fn is_written(&self, state: &State, write: &Write) -> bool {
        !self.rules.compares || self.version(&state.record) == self.version(&write.expected)
    }

    fn deliver(state: &mut State, at: usize) {
        let write = &mut state.writes[at];
        write.deliveries += 1;
        let holder = |record: &Record| record.holder.as_ref().map(|held| held.owner);
        let before = state.record.as_ref().and_then(holder);
        let new = holder(&write.record);
        if new.is_some() && new != before {
            state.token_repeats |= write.record.token <= state.last;
        }
        state.last = state.last.max(write.record.token);
        state.record = Some(write.record.clone());
    }

    /// A write of this call was carried out.
    fn done(state: &mut State, at: usize, write: usize) {
        let Write { record, answer, .. } = state.writes[write].clone();
        let now = state.now;
        let client = &mut state.clients[at];
        client.phase = Phase::Idle;
        match (client.goal, answer) {
            (Goal::Acquire, Answer::Granted(_)) | (Goal::Renew, Answer::Done) => {
                state.held[at] = true;
                client.valid_until = client.from + BELIEVED;
                let beat = record.holder.as_ref().map(|held| held.beat.clone());
                client.seen = beat.map(|beat| (beat, now));
                client.known = Some(record);
            }
            (Goal::Abandon, _) => {
                state.abandoned.push(client.owner);
                Self::leave(client);
            }
            _ => Self::leave(client),
        }
    }

    /// The owner is used up; the next attempt has another.
    fn leave(client: &mut Client) {
        client.owner = OwnerId::from_bits(client.owner.to_bits() + 1);
        (client.valid_until, client.known) = (0, None);
        client.sent.clear();
    }
}
