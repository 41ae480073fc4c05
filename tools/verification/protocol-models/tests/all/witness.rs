//! The first use of a plain Redis: every order of the steps of two clients, with losses of data, of
//! the script cache and of the server.
//!
//! A store on a server that has been up for a longest lease opens at once, if its *witness* is not
//! in the script cache. A client writes a candidate with a nonce into the epoch record, asks for
//! the witness, loads it, and opens the store. `open.lua` of `backend-redis` and
//! `store/first_use.rs` there are the real steps.
//!
//! Time is only an order. A wait ends when each client that held a lock at its beginning has
//! renewed it since, or has lost its validity; the uptime of the server counts in the same way.
//! `Later` is a longest lease and a few seconds, in which each client looks at the server or loses
//! what it holds. The assumption of the store is that the data and the script cache are not lost
//! within that time. A client may stop between any two steps, take the next one much later, and
//! repeat its last one after a restart.
//!
//! For each rule, a test removes it, and the search must find two holders.
//!
//! Not shown: a server that becomes a replica or another server at its address (conditions of the
//! real script, or assumptions), and a wait that an operator's `init` has set.

use stateright::{Checker, HasDiscoveries, Model, Property};

const CLIENTS: usize = 2;

/// Which rules are in force.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// A client asks for the witness after it has written its candidate.
    asks_after: bool,
    /// It loads the witness before the store opens.
    loads: bool,
    /// It opens the store only if its own nonce is there.
    nonce: bool,
    /// And only in the run of the server in which it wrote the candidate.
    run: bool,
    /// And only if the candidate is younger than a second.
    young: bool,
    /// Each look that finds a record of this run puts the witness back.
    puts_back: bool,
    /// No renewal without the witness.
    renews_with: bool,
    /// The server has been up for a longest lease.
    uptime: bool,
    /// The witness is that of the key prefix.
    prefix: bool,
}

const ALL: Rules = Rules {
    asks_after: true,
    loads: true,
    nonce: true,
    run: true,
    young: true,
    puts_back: true,
    renews_with: true,
    uptime: true,
    prefix: true,
};

#[derive(Clone, Copy, Debug)]
struct Store {
    rules: Rules,
    /// How often each may happen.
    budget: Budget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    /// Candidates.
    tries: u8,
    /// FLUSHALL.
    flushes: u8,
    /// DEL of the epoch record.
    deletions: u8,
    /// SCRIPT FLUSH.
    forgets: u8,
    restarts: u8,
}

/// Some clients.
type Set = [bool; CLIENTS];
const NOBODY: Set = [false; CLIENTS];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Epoch {
    Missing,
    /// Of this run of the server; grants after those who are waited for.
    Known {
        run: u8,
        waits_for: Set,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Candidate {
    nonce: u8,
    run: u8,
    young: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Data {
    epoch: Epoch,
    candidate: Option<Candidate>,
    /// The holder. The second field: the key may end before its validity, since it is from a copy.
    lock: Option<(usize, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// It asked for the witness too early; the answer.
    Early(bool),
    Candidate {
        nonce: u8,
        run: u8,
        known: Option<bool>,
    },
    Loaded {
        nonce: u8,
        run: u8,
        known: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Due {
    Look,
    /// It has looked, and found no witness.
    Renewal,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Client {
    /// It relies on its lock.
    holds: bool,
    phase: Phase,
    /// Its last look at the server is not too old, and saw the present run.
    looked: bool,
    /// That look saw a record of this run, or the client has done its first use.
    settled: bool,
    /// That look saw the witness.
    witnessed: bool,
    /// What it still has to do before a longest lease has passed since the loss of the script
    /// cache, or before it has lost its lock.
    due: Due,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    run: u8,
    data: Data,
    /// A copy on disk, which a restart may bring back.
    saved: Option<Data>,
    witness: bool,
    /// Somebody has used this prefix in this run.
    used: bool,
    /// A client has opened it at once, over a record of an earlier run.
    opened: bool,
    /// Those who held a lock when the server started, and have not renewed it since.
    before_start: Set,
    /// The script cache was lost less than a longest lease ago.
    forgotten: bool,
    /// Those who held a lock when data was lost, and have not renewed it since.
    before_loss: Set,
    clients: [Client; CLIENTS],
    left: Budget,
    nonces: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
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

impl State {
    fn holders(&self) -> Set {
        self.clients.map(|client| client.holds)
    }

    /// This client is not waited for any more.
    fn waited(&mut self, me: usize) {
        self.before_start[me] = false;
        self.before_loss[me] = false;
        if let Epoch::Known { waits_for, .. } = &mut self.data.epoch {
            waits_for[me] = false;
        }
    }

    fn known(&self) -> Option<Set> {
        match self.data.epoch {
            Epoch::Known { run, waits_for } if run == self.run => Some(waits_for),
            _ => None,
        }
    }

    fn load(&mut self) {
        self.witness = true;
        self.used = true;
    }

    fn begin(&mut self, waits_for: Set) {
        self.data.epoch = Epoch::Known { run: self.run, waits_for };
        self.data.candidate = None;
        self.used = true;
    }
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
                possible(!rules.uptime || state.before_start == NOBODY)?;
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
                    state.begin(if known { state.holders() } else { NOBODY });
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

const OPENS: &str = "it opens at once over a record of an earlier run";

/// Each of these has a search of its own, since together they have too many states.
const LOSSES: Budget = Budget { tries: 3, flushes: 2, deletions: 0, forgets: 1, restarts: 0 };
const DELETION: Budget = Budget { tries: 2, flushes: 1, deletions: 1, forgets: 1, restarts: 0 };
const RESTART: Budget = Budget { tries: 2, flushes: 1, deletions: 0, forgets: 0, restarts: 1 };

/// What a search found, and how many states it saw.
fn search(rules: Rules, budget: Budget) -> (Vec<&'static str>, usize) {
    let checker = Store { rules, budget }.checker().threads(2);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    if let Some(path) = checker.discovery("one holder") {
        println!("{:?}", path.into_actions());
    }
    let found = checker.discoveries().into_keys().collect();
    println!("{rules:?} {budget:?}: {} states, found {found:?}", checker.unique_state_count());
    (found, checker.unique_state_count())
}

fn breaks(rules: Rules, budget: Budget) {
    let (found, _) = search(rules, budget);
    assert!(found.contains(&"one holder"), "{found:?}");
}

#[test]
fn one_holds_over_losses_of_data_and_of_scripts() {
    for budget in [LOSSES, DELETION] {
        let (found, states) = search(ALL, budget);
        assert!(found.is_empty() && states > 50_000, "{found:?} in {states} states");
    }
}

#[test]
fn one_holds_over_a_restart_and_a_store_opens_at_once_after_it() {
    let (found, states) = search(ALL, RESTART);
    assert!(found == [OPENS] && states > 50_000, "{found:?} in {states} states");
}

#[test]
fn without_any_rule_two_hold() {
    breaks(Rules { asks_after: false, ..ALL }, LOSSES);
    breaks(Rules { loads: false, ..ALL }, LOSSES);
    breaks(Rules { nonce: false, ..ALL }, LOSSES);
    breaks(Rules { run: false, ..ALL }, RESTART);
    breaks(Rules { young: false, ..ALL }, LOSSES);
    breaks(Rules { puts_back: false, ..ALL }, LOSSES);
    breaks(Rules { renews_with: false, ..ALL }, DELETION);
    breaks(Rules { uptime: false, ..ALL }, RESTART);
}

#[test]
fn a_witness_for_all_prefixes_makes_a_new_one_wait() {
    let (found, _) = search(Rules { prefix: false, ..ALL }, LOSSES);
    assert_eq!(found, ["an unused store opens at once"]);
}
