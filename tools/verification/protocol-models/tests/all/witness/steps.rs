//! The rules of a first use, and the steps that clients, server and operator may take.

use stateright::{Model, Property};

use super::state::{Budget, CLIENTS, Candidate, Client, Data, Due, Epoch, NOBODY, Phase, State};

/// Which rules are in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// A client asks for the witness after it has written its candidate.
    pub(super) asks_after: bool,
    /// It loads the witness before the store opens.
    pub(super) loads: bool,
    /// It opens the store only if its own nonce is there.
    pub(super) nonce: bool,
    /// And only in the run of the server in which it wrote the candidate.
    pub(super) run: bool,
    /// And only if the candidate is younger than a second.
    pub(super) young: bool,
    /// Each look that finds a record of this run puts the witness back.
    pub(super) puts_back: bool,
    /// No renewal without the witness.
    pub(super) renews_with: bool,
    /// The store grants a longest lease after the server's start.
    pub(super) uptime: bool,
    /// The witness is that of the key prefix.
    pub(super) prefix: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Store {
    pub(super) rules: Rules,
    /// How often each may happen.
    pub(super) budget: Budget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Look(usize),
    AskEarly(usize),
    WriteCandidate(usize),
    Ask(usize),
    Load(usize),
    Open(usize),
    /// The rule of a client that may not open at once: it loads the witness, and waits.
    Fallback(usize),
    Acquire(usize),
    Renew(usize),
    Spend(usize),
    Expire,
    Age,
    Later,
    Save,
    OtherPrefix,
    Flush,
    Delete,
    Forget,
    Restart {
        copy: bool,
    },
}

impl Model for Store {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let client = Client {
            holds: false,
            phase: Phase::Idle,
            looked: false,
            settled: false,
            witnessed: false,
            due: Due::Nothing,
        };
        vec![State {
            run: 0,
            data: Data { epoch: Epoch::Missing, candidate: None, lock: None },
            saved: None,
            witness: false,
            used: false,
            opened: false,
            before_start: NOBODY,
            forgotten: false,
            before_loss: NOBODY,
            clients: [client; CLIENTS],
            left: self.budget,
            nonces: 0,
        }]
    }

    fn actions(&self, _: &State, steps: &mut Vec<Step>) {
        use Step::*;
        for me in 0..CLIENTS {
            steps.extend([Look(me), AskEarly(me), WriteCandidate(me), Ask(me), Load(me), Open(me)]);
            steps.extend([Fallback(me), Acquire(me), Renew(me), Spend(me)]);
        }
        steps.extend([Expire, Age, Later, Save, OtherPrefix, Flush, Delete, Forget]);
        steps.extend([Restart { copy: false }, Restart { copy: true }]);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let (mut state, rules) = (*last, self.rules);
        // `None` if the step cannot be taken now.
        let possible = |yes: bool| yes.then_some(());
        match step {
            Step::Look(me) => {
                let settled = state.known().is_some();
                if settled && rules.puts_back {
                    state.load();
                }
                let client = &mut state.clients[me];
                (client.settled, client.witnessed) = (settled, state.witness);
                client.looked = true;
                client.due = match client.due {
                    Due::Look | Due::Renewal if !client.witnessed => Due::Renewal,
                    _ => Due::Nothing,
                };
            }
            Step::AskEarly(me) => {
                let client = &mut state.clients[me];
                possible(!rules.asks_after && client.phase == Phase::Idle)?;
                client.phase = Phase::Early(state.witness);
            }
            Step::WriteCandidate(me) => {
                let client = state.clients[me];
                let known = match client.phase {
                    Phase::Early(known) => Some(known),
                    _ => None,
                };
                possible(client.looked && !client.settled && state.known().is_none())?;
                possible(known.is_some() || rules.asks_after)?;
                possible(!state.data.candidate.is_some_and(|other| other.young))?;
                state.left.tries = state.left.tries.checked_sub(1)?;
                let (nonce, run) = (state.nonces, state.run);
                state.nonces += 1;
                state.data.candidate = Some(Candidate { nonce, run, young: true });
                state.clients[me].phase = Phase::Candidate { nonce, run, known };
            }
            Step::Ask(me) => match &mut state.clients[me].phase {
                Phase::Candidate { known: known @ None, .. } => *known = Some(state.witness),
                _ => return None,
            },
            Step::Load(me) => {
                let Phase::Candidate { nonce, run, known: Some(known) } = state.clients[me].phase
                else {
                    return None;
                };
                if rules.loads {
                    state.load();
                }
                state.clients[me].phase = Phase::Loaded { nonce, run, known };
            }
            Step::Open(me) => {
                let Phase::Loaded { nonce, run, known } = state.clients[me].phase else {
                    return None;
                };
                let mine = state.data.candidate.is_some_and(|there| {
                    (there.nonce == nonce || !rules.nonce)
                        && (there.young || !rules.young)
                        && (run == state.run || !rules.run)
                });
                state.clients[me].phase = Phase::Idle;
                if mine && state.known().is_none() {
                    state.opened |= !known && state.data.epoch != Epoch::Missing;
                    state.begin(match known {
                        true => state.holders(),
                        false if rules.uptime => state.before_start,
                        false => NOBODY,
                    });
                    // Not `witnessed`: a look may have come after `Load`, and knows better.
                    state.clients[me].settled = true;
                }
            }
            Step::Fallback(me) => {
                possible(state.clients[me].looked && !state.clients[me].settled)?;
                state.load();
                let client = &mut state.clients[me];
                (client.settled, client.witnessed) = (true, true);
            }
            Step::Acquire(me) => {
                let client = state.clients[me];
                possible(client.looked && client.settled && !client.holds)?;
                match state.known() {
                    // As `gate` of epoch.lua.
                    None => state.begin(state.holders()),
                    Some(waits_for) => {
                        possible(waits_for == NOBODY && state.data.lock.is_none())?;
                        state.data.lock = Some((me, false));
                        let client = &mut state.clients[me];
                        client.holds = true;
                        client.due = if state.forgotten { Due::Look } else { Due::Nothing };
                    }
                }
            }
            Step::Renew(me) => {
                let client = state.clients[me];
                possible(client.looked && client.holds)?;
                if rules.renews_with && !client.witnessed {
                    state.load();
                    state.clients[me].witnessed = true;
                    return Some(state);
                }
                if matches!(state.data.lock, Some((owner, _)) if owner == me) {
                    state.data.lock = Some((me, false));
                    state.waited(me);
                    if client.due == Due::Renewal {
                        state.clients[me].due = Due::Nothing;
                    }
                } else {
                    state.clients[me].holds = false;
                    state.waited(me);
                }
            }
            Step::Spend(me) => {
                possible(state.clients[me].holds)?;
                state.clients[me].holds = false;
                state.waited(me);
            }
            Step::Expire => {
                let (owner, short) = state.data.lock?;
                possible(short || !state.clients[owner].holds)?;
                state.data.lock = None;
            }
            Step::Age => state.data.candidate.as_mut()?.young = false,
            Step::Later => {
                possible(state.forgotten)?;
                possible(
                    !state.clients.iter().any(|client| client.holds && client.due != Due::Nothing),
                )?;
                state.forgotten = false;
                if let Some(candidate) = &mut state.data.candidate {
                    candidate.young = false;
                }
                for client in &mut state.clients {
                    (client.looked, client.due) = (false, Due::Nothing);
                }
            }
            Step::Save => {
                possible(state.left.restarts > 0)?;
                state.saved = Some(state.data);
            }
            // A store with another prefix is used on the same server.
            Step::OtherPrefix => {
                possible(!rules.prefix)?;
                state.witness = true;
            }
            Step::Flush => {
                possible(!state.forgotten)?;
                state.left.flushes = state.left.flushes.checked_sub(1)?;
                state.before_loss = state.holders();
                state.data = Data { epoch: Epoch::Missing, candidate: None, lock: None };
            }
            Step::Delete => {
                possible(!state.forgotten)?;
                state.left.deletions = state.left.deletions.checked_sub(1)?;
                state.before_loss = state.holders();
                (state.data.epoch, state.data.candidate) = (Epoch::Missing, None);
            }
            Step::Forget => {
                possible(state.before_loss == NOBODY)?;
                state.left.forgets = state.left.forgets.checked_sub(1)?;
                (state.witness, state.forgotten) = (false, true);
                for client in &mut state.clients {
                    client.due = Due::Look;
                }
            }
            Step::Restart { copy } => {
                state.left.restarts = state.left.restarts.checked_sub(1)?;
                let empty = Data { epoch: Epoch::Missing, candidate: None, lock: None };
                state.data = if copy { state.saved? } else { empty };
                state.data.lock = state.data.lock.map(|(owner, _)| (owner, true));
                (state.run, state.saved) = (state.run + 1, None);
                (state.witness, state.used, state.forgotten) = (false, false, false);
                state.opened = false;
                (state.before_start, state.before_loss) = (state.holders(), NOBODY);
                for client in &mut state.clients {
                    (client.looked, client.settled, client.witnessed) = (false, false, false);
                    client.due = Due::Nothing;
                }
            }
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one holder", |_, state: &State| state.holders() != [true; CLIENTS]),
            Property::always("an unused store opens at once", |_, state: &State| {
                state.used || !state.witness
            }),
            Property::sometimes(OPENS, |_, state: &State| state.run > 0 && state.opened),
        ]
    }
}

pub(super) const OPENS: &str = "it opens over a record of an earlier run";
