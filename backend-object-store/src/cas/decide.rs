//! The decisions, without clock, network or randomness: what a step makes of a record.
//!
//! A client reads the record with its version, decides, and writes the new record on the condition
//! that the version is still there. So each decision is one atomic step, whatever came between.

use lock_core::{FencingToken, OwnerId, OwnerLabel};

use super::record::{Held, Nonce, Record, Value};
use crate::tunables::MOST_ABANDONED;

/// What a client wants of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// [`Acquire`](Verb::Acquire) and [`Reown`](Verb::Reown) give this owner the lock. All other
    /// verbs are about the lock that it has.
    pub owner: OwnerId,
    /// What to do.
    pub verb: Verb,
}

/// What a step does. Leases and minimum holds are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Take the lock, or hold it on.
    Acquire {
        /// Operators see it as the holder.
        label: OwnerLabel,
        /// The length of the lease.
        lease_ms: u64,
        /// The new token is above this.
        floor: FencingToken,
    },
    /// Begin the lease anew, with this length.
    Renew(u64),
    /// Give the lock up, or leave it for a minimum hold.
    Release(Option<u64>),
    /// Make sure that this owner has nothing, and never will.
    Abandon,
    /// Free the lock of this owner by force, for an operator.
    Force,
    /// Raise the token to at least this.
    Raise(FencingToken),
    /// Take the lock over from its present holder, with its token.
    Reown {
        /// The present holder.
        from: OwnerId,
        /// The holder's token.
        token: FencingToken,
        /// Who takes it over, for operators.
        label: OwnerLabel,
        /// The length of the lease.
        lease_ms: u64,
    },
    /// Write the value.
    Write(Value),
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
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum Decision {
    /// Write this record if the version is still there. Then the answer is true.
    Write(Record, Answer),
    /// Nothing: the answer is true already.
    Answer(Answer),
}

/// Decides a step. `is_over` says that this client has seen the holder's last beat for the whole
/// lease, on its own clock. `nonce` was never used. Only tokens use `wall_micros`, this client's
/// wall clock in microseconds since 1970.
#[must_use]
pub fn decide(
    record: Option<&Record>,
    is_over: bool,
    step: &Step,
    nonce: Nonce,
    wall_micros: u64,
) -> Decision {
    use Decision::{Answer as Say, Write};
    let mut new = record.cloned().unwrap_or_else(|| Record::new(nonce.clone()));
    new.nonce = nonce.clone();
    let (owner, live) = (step.owner, new.holder.as_ref().filter(|_| !is_over));
    let holds = |wanted: OwnerId| live.is_some_and(|held| held.owner == wanted && !held.kept);
    let held = |label: &OwnerLabel, lease_ms| {
        let (label, beat) = (label.clone(), nonce.clone());
        Some(Held { owner, label, lease_ms, beat, kept: false })
    };
    match &step.verb {
        Verb::Reown { token, .. } if *token != new.token => Say(Answer::NotHeld),
        Verb::Acquire { label, lease_ms, .. } | Verb::Reown { label, lease_ms, .. }
            if holds(owner) =>
        {
            // A late repeat may ask for less. The holder may still count on the longer lease.
            let lease_ms = live.map_or(0, |held| held.lease_ms).max(*lease_ms);
            new.holder = held(label, lease_ms);
            let token = new.token;
            Write(new, Answer::Granted(token))
        }
        Verb::Acquire { .. } if live.is_some() || new.abandoned.contains(&owner) => {
            Say(Answer::Busy)
        }
        Verb::Acquire { label, lease_ms, floor } => {
            let Some(token) = FencingToken::mint(wall_micros, new.token, *floor) else {
                return Say(Answer::UsedUp);
            };
            (new.holder, new.token) = (held(label, *lease_ms), token);
            Write(new, Answer::Granted(token))
        }
        // The object of another program stays as it is. An attempt writes nothing over it, so the
        // late writes of this owner expect an earlier version, and fail.
        Verb::Abandon if new.holder.as_ref().is_some_and(Held::is_unreadable) => Say(Answer::Done),
        Verb::Abandon => {
            new.holder = new.holder.filter(|held| held.owner != owner || held.kept);
            new.abandoned.retain(|other| *other != owner);
            if new.abandoned.len() == MOST_ABANDONED {
                new.abandoned.remove(0);
            }
            new.abandoned.push(owner);
            Write(new, Answer::Done)
        }
        Verb::Force if new.holder.as_ref().is_some_and(|held| held.owner == owner) => {
            (new.holder, new.freed) = (None, Some(nonce));
            Write(new, Answer::Done)
        }
        Verb::Reown { from, token, label, lease_ms }
            if holds(*from) && !new.abandoned.contains(&owner) =>
        {
            new.holder = held(label, *lease_ms);
            Write(new, Answer::Granted(*token))
        }
        Verb::Renew(lease_ms) if holds(owner) => {
            if let Some(held) = &mut new.holder {
                held.lease_ms = held.lease_ms.max(*lease_ms);
                held.beat = nonce;
            }
            Write(new, Answer::Done)
        }
        Verb::Release(keep_ms) if holds(owner) => {
            new.freed = Some(nonce.clone());
            new.holder = new.holder.and_then(|held| {
                let lease_ms = (*keep_ms)?;
                Some(Held { lease_ms, beat: nonce, kept: true, ..held })
            });
            Write(new, Answer::Done)
        }
        Verb::Raise(token) if holds(owner) => {
            if new.token >= *token {
                return Say(Answer::Done);
            }
            new.token = *token;
            Write(new, Answer::Done)
        }
        Verb::Write(value) if holds(owner) => {
            let value = Value { token: new.token, ..value.clone() };
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
