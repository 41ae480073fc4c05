//! The decisions, without clock, network or randomness: what a step makes of a record.
//!
//! A client reads the record with its version, decides, and writes the new record on the condition
//! that the version is still there. So each decision is one atomic step, whatever came between.

use lock_core::{FencingToken, OwnerId, OwnerLabel};

use super::record::{Held, Nonce, Record, Value};
use crate::tunables::MOST_ABANDONED;

/// What a client wants of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Take the lock, or hold it on.
    Acquire {
        /// Who asks.
        owner: OwnerId,
        /// Its label.
        label: OwnerLabel,
        /// Its lease.
        lease_ms: u64,
        /// The token must be above this.
        floor: FencingToken,
    },
    /// Begin the lease anew.
    Renew {
        /// The holder.
        owner: OwnerId,
        /// Its lease.
        lease_ms: u64,
    },
    /// Give the lock up, or leave it for a minimum hold.
    Release {
        /// The holder.
        owner: OwnerId,
        /// The minimum hold.
        keep_ms: Option<u64>,
    },
    /// Make sure that this owner has nothing, and never will.
    Abandon {
        /// The owner.
        owner: OwnerId,
    },
    /// Free the lock of this owner by force.
    Force {
        /// Whom the operator has seen.
        owner: OwnerId,
    },
    /// Raise the token.
    Raise {
        /// The holder.
        owner: OwnerId,
        /// At least this.
        token: FencingToken,
    },
    /// Give the held lock to another owner.
    Reown {
        /// The present holder.
        from: OwnerId,
        /// Its token.
        token: FencingToken,
        /// The new holder.
        owner: OwnerId,
        /// Its label.
        label: OwnerLabel,
        /// Its lease.
        lease_ms: u64,
    },
    /// Write the value.
    Write {
        /// The holder.
        owner: OwnerId,
        /// The value.
        value: Value,
    },
}

impl Step {
    /// The owner that should hold the lock already, if the step is about one.
    pub(super) fn of_holder(&self) -> Option<OwnerId> {
        match self {
            Self::Renew { owner, .. }
            | Self::Release { owner, .. }
            | Self::Abandon { owner }
            | Self::Force { owner }
            | Self::Raise { owner, .. }
            | Self::Write { owner, .. } => Some(*owner),
            Self::Acquire { .. } | Self::Reown { .. } => None,
        }
    }
}

/// The answer to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The owner has the lock, with this token.
    Granted(FencingToken),
    /// Another owner has the lock, or this one was abandoned.
    Busy,
    /// The step is done.
    Done,
    /// The owner does not have the lock.
    NotHeld,
    /// No larger token is left.
    UsedUp,
}

/// What a client does next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Write this record if the version is still there. Then the answer is true.
    Write(Record, Answer),
    /// Nothing: the answer is true already.
    Answer(Answer),
}

/// What a decision needs besides the record.
#[derive(Clone, Debug)]
pub struct Draw {
    /// A nonce that was never used.
    pub nonce: Nonce,
    /// This client's wall clock, in microseconds since 1970. Only tokens use it.
    pub wall_micros: u64,
}

/// Decides a step. `is_over` says that this client has seen the holder's last beat for the whole
/// lease, on its own clock.
#[must_use]
pub fn decide(record: Option<&Record>, is_over: bool, step: &Step, draw: Draw) -> Decision {
    use Decision::{Answer as Say, Write};
    let Draw { nonce, wall_micros } = draw;
    let mut new = record.cloned().unwrap_or_else(|| Record {
        nonce: nonce.clone(),
        token: FencingToken::ZERO,
        holder: None,
        abandoned: Vec::new(),
        value: None,
    });
    new.nonce = nonce.clone();
    let live = new.holder.as_ref().filter(|_| !is_over);
    let holds = |wanted: &OwnerId| live.is_some_and(|held| held.owner == *wanted && !held.kept);
    let is_its_token = !matches!(step, Step::Reown { token, .. } if *token != new.token);
    let held = |owner: &OwnerId, label: &OwnerLabel, lease_ms| Held {
        owner: *owner,
        label: label.clone(),
        lease_ms,
        beat: nonce.clone(),
        kept: false,
    };
    match step {
        Step::Acquire { owner, label, lease_ms, .. }
        | Step::Reown { owner, label, lease_ms, .. }
            if holds(owner) && is_its_token =>
        {
            // A late repeat may ask for less. The holder may still count on the longer lease.
            let lease_ms = live.map_or(0, |held| held.lease_ms).max(*lease_ms);
            new.holder = Some(held(owner, label, lease_ms));
            let token = new.token;
            Write(new, Answer::Granted(token))
        }
        Step::Acquire { owner, .. } if live.is_some() || new.abandoned.contains(owner) => {
            Say(Answer::Busy)
        }
        Step::Acquire { owner, label, lease_ms, floor } => {
            let Some(token) = FencingToken::mint(wall_micros, new.token, *floor) else {
                return Say(Answer::UsedUp);
            };
            new.holder = Some(held(owner, label, *lease_ms));
            new.token = token;
            Write(new, Answer::Granted(token))
        }
        Step::Abandon { owner } => {
            new.holder = new.holder.filter(|held| held.owner != *owner || held.kept);
            new.abandoned.retain(|other| other != owner);
            if new.abandoned.len() == MOST_ABANDONED {
                new.abandoned.remove(0);
            }
            new.abandoned.push(*owner);
            Write(new, Answer::Done)
        }
        Step::Force { owner } if new.holder.as_ref().is_some_and(|held| held.owner == *owner) => {
            new.holder = None;
            Write(new, Answer::Done)
        }
        Step::Reown { from, token, owner, label, lease_ms }
            if holds(from) && is_its_token && !new.abandoned.contains(owner) =>
        {
            new.holder = Some(held(owner, label, *lease_ms));
            Write(new, Answer::Granted(*token))
        }
        Step::Renew { owner, lease_ms } if holds(owner) => {
            if let Some(held) = &mut new.holder {
                held.lease_ms = held.lease_ms.max(*lease_ms);
                held.beat = nonce;
            }
            Write(new, Answer::Done)
        }
        Step::Release { owner, keep_ms } if holds(owner) => {
            new.holder = new.holder.and_then(|held| {
                let lease_ms = (*keep_ms)?;
                Some(Held { lease_ms, beat: nonce, kept: true, ..held })
            });
            Write(new, Answer::Done)
        }
        Step::Raise { owner, token } if holds(owner) => {
            if new.token >= *token {
                return Say(Answer::Done);
            }
            new.token = *token;
            Write(new, Answer::Done)
        }
        Step::Write { owner, value } if holds(owner) => {
            let mut value = value.clone();
            value.token = new.token;
            let is_repeat = |last: &Value| last.token == value.token && last.number >= value.number;
            if new.value.as_ref().is_some_and(is_repeat) {
                return Say(Answer::Done);
            }
            new.value = Some(value);
            Write(new, Answer::Done)
        }
        _ => Say(Answer::NotHeld),
    }
}
