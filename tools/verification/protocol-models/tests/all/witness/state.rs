//! The server and its clients between two steps.

pub(super) const CLIENTS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Candidates.
    pub(super) tries: u8,
    /// FLUSHALL.
    pub(super) flushes: u8,
    /// DEL of the epoch record.
    pub(super) deletions: u8,
    /// SCRIPT FLUSH.
    pub(super) forgets: u8,
    pub(super) restarts: u8,
}

/// Some clients.
pub(super) type Set = [bool; CLIENTS];
pub(super) const NOBODY: Set = [false; CLIENTS];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Epoch {
    Missing,
    /// Of this run of the server; grants after those who are waited for.
    Known {
        run: u8,
        waits_for: Set,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Candidate {
    pub(super) nonce: u8,
    pub(super) run: u8,
    pub(super) young: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Data {
    pub(super) epoch: Epoch,
    pub(super) candidate: Option<Candidate>,
    /// The holder. The second field: the key may end before its validity, since it is from a copy.
    pub(super) lock: Option<(usize, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
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
pub(super) enum Due {
    Look,
    /// It has looked, and found no witness.
    Renewal,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    /// It relies on its lock.
    pub(super) holds: bool,
    pub(super) phase: Phase,
    /// Its last look at the server is not too old, and saw the present run.
    pub(super) looked: bool,
    /// That look saw a record of this run, or the client has done its first use.
    pub(super) settled: bool,
    /// That look saw the witness.
    pub(super) witnessed: bool,
    /// What it still has to do before a longest lease has passed since the loss of the script
    /// cache, or before it has lost its lock.
    pub(super) due: Due,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) run: u8,
    pub(super) data: Data,
    /// A copy on disk, which a restart may bring back.
    pub(super) saved: Option<Data>,
    pub(super) witness: bool,
    /// Somebody has used this prefix in this run.
    pub(super) used: bool,
    /// A client has opened it over a record of an earlier run.
    pub(super) opened: bool,
    /// Those who held a lock when the server started, and have not renewed it since.
    pub(super) before_start: Set,
    /// The script cache was lost less than a longest lease ago.
    pub(super) forgotten: bool,
    /// Those who held a lock when data was lost, and have not renewed it since.
    pub(super) before_loss: Set,
    pub(super) clients: [Client; CLIENTS],
    pub(super) left: Budget,
    pub(super) nonces: u8,
}

impl State {
    pub(super) fn holders(&self) -> Set {
        self.clients.map(|client| client.holds)
    }

    /// This client is not waited for any more.
    pub(super) fn waited(&mut self, me: usize) {
        self.before_start[me] = false;
        self.before_loss[me] = false;
        if let Epoch::Known { waits_for, .. } = &mut self.data.epoch {
            waits_for[me] = false;
        }
    }

    pub(super) fn known(&self) -> Option<Set> {
        match self.data.epoch {
            Epoch::Known { run, waits_for } if run == self.run => Some(waits_for),
            _ => None,
        }
    }

    pub(super) fn load(&mut self) {
        self.witness = true;
        self.used = true;
    }

    pub(super) fn begin(&mut self, waits_for: Set) {
        self.data.epoch = Epoch::Known { run: self.run, waits_for };
        self.data.candidate = None;
        self.used = true;
    }
}
