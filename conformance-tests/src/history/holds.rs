//! Groups the events of a history by acquisition.

use std::{collections::BTreeMap, time::Duration};

use lock_core::{FencingToken, Instant, LockName, LossReason, Mode, OwnerId};

use super::{Event, History, Op, What};

/// One acquisition, from the call to its answer.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The id of the acquisition.
    pub op: Op,
    /// Whether it is a reader or a writer. Two readers may hold at the same time.
    pub mode: Mode,
    /// The requested lock, or the lock that it got: a slot of a semaphore, or one of several locks.
    pub name: LockName,
    /// The semaphore of a permit, and its number of permits.
    pub semaphore: Option<(LockName, u32)>,
    /// When the client called acquire.
    pub asked: Instant,
    /// Since when it may have a queue entry. It may inherit the entry of an older acquisition of
    /// its process that gave up.
    pub entry_since: Instant,
    /// Since when the store certainly had a queue entry for it.
    pub queued: Option<Instant>,
    /// When it was answered or cancelled; `None` if it never was.
    pub ended: Option<Instant>,
    /// The token in a `Busy` answer.
    pub busy: Option<FencingToken>,
    /// The acquisition whose detached lock it attaches, if it is an attach. It has no queue entry.
    pub attaches: Option<Op>,
    /// The hold, if it was granted.
    pub hold: Option<Hold>,
}

/// A guard, and the time in which its holder could rely on it.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The guard's owner.
    pub owner: OwnerId,
    /// The guard's token.
    pub token: FencingToken,
    /// When the acquire had returned.
    pub from: Instant,
    /// The end (exclusive) of the time in which the holder certainly relied on the guard; `from` or
    /// earlier if it never did.
    pub until: Instant,
}

impl Hold {
    /// Whether there is an instant at which the holder certainly relied on the guard.
    #[must_use]
    pub fn believed(&self) -> bool {
        self.from < self.until
    }
}

/// All acquisitions of a history by name, sorted by their begin.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    /// The acquisitions of each name.
    pub by_name: BTreeMap<LockName, Vec<Attempt>>,
    /// Acquisitions without an answer: their process ended, or they are stuck.
    pub unanswered: Vec<Op>,
    /// Events that do not fit together: a mistake of the recorder, or a library that answers twice.
    pub misfits: Vec<Event>,
}

impl Holds {
    /// Groups the events of `history`.
    #[must_use]
    pub fn of(history: &History) -> Self {
        let mut parts: BTreeMap<Op, Parts> = BTreeMap::new();
        let mut forced = Vec::new();
        let mut holds = Self::default();
        for event in history.events() {
            match &event.what {
                What::Asked { name, permits, mode } if !parts.contains_key(&event.op) => {
                    parts.insert(event.op, Parts::new(event, name, *permits, *mode));
                }
                What::Attaching { name, of } if !parts.contains_key(&event.op) => {
                    let mut attach = Parts::new(event, name, None, Mode::Exclusive);
                    attach.attempt.attaches = Some(*of);
                    parts.insert(event.op, attach);
                }
                What::Forced { name, began } => forced.push((name.clone(), *began, event.at)),
                // The checker of updates reads these. A stale holder may write long after its hold.
                What::Updated { .. } => {}
                _ => {
                    if !parts.get_mut(&event.op).is_some_and(|parts| parts.take(event)) {
                        holds.misfits.push(event.clone());
                    }
                }
            }
        }
        for parts in parts.into_values() {
            let attempt = parts.finish();
            if attempt.ended.is_none() {
                holds.unanswered.push(attempt.op);
            }
            holds.by_name.entry(attempt.name.clone()).or_default().push(attempt);
        }
        for attempts in holds.by_name.values_mut() {
            attempts.sort_by_key(|attempt| attempt.asked);
            inherit(attempts);
            excuse(attempts, &forced);
        }
        holds
    }
}

/// A process passes a queue entry on within this time: it may be in the middle of a call when the
/// next acquisition begins.
const PASSING_ON: Duration = Duration::from_secs(5);

/// Finds for each acquisition the oldest queue entry that it may have inherited (L3).
fn inherit(attempts: &mut [Attempt]) {
    for at in 0..attempts.len() {
        let (older, later) = attempts.split_at_mut(at);
        let Some(later) = later.first_mut() else { continue };
        let left = |older: &&Attempt| {
            older.op.process == later.op.process
                && older.attaches.or(later.attaches).is_none()
                && older.hold.is_none()
                && older.ended.is_none_or(|ended| ended + PASSING_ON >= later.asked)
        };
        if let Some(since) = older.iter().filter(left).map(|older| older.entry_since).min() {
            later.entry_since = later.entry_since.min(since);
        }
    }
}

/// Ends the holds of names that an operator released by force. Nobody knows whether the store made
/// the grant or the release first, so the checker does not blame the holder after it.
fn excuse(attempts: &mut [Attempt], forced: &[(LockName, Instant, Instant)]) {
    for Attempt { name, entry_since, hold, .. } in attempts {
        let Some(hold) = hold else { continue };
        for (_, began, _) in
            forced.iter().filter(|(freed, _, ended)| freed == name && *entry_since <= *ended)
        {
            hold.until = hold.until.min(*began);
        }
    }
}

/// An acquisition while its events are collected.
struct Parts {
    attempt: Attempt,
    /// The latest instant at which the guard was seen valid.
    last_seen: Option<Instant>,
    /// The latest end of validity that the guard reported.
    promised: Instant,
    /// The first event after which the holder no longer relied on the guard.
    stopped: Option<Instant>,
}

impl Parts {
    fn new(event: &Event, name: &LockName, permits: Option<u32>, mode: Mode) -> Self {
        let attempt = Attempt {
            op: event.op,
            mode,
            name: name.clone(),
            semaphore: permits.map(|permits| (name.clone(), permits)),
            asked: event.at,
            entry_since: event.at,
            queued: None,
            ended: None,
            busy: None,
            attaches: None,
            hold: None,
        };
        Self { attempt, last_seen: None, promised: event.at, stopped: None }
    }

    /// Adds an event of this acquisition; `false` if the event does not fit.
    fn take(&mut self, event: &Event) -> bool {
        let at = event.at;
        let answered = self.attempt.ended.is_some();
        match &event.what {
            What::Queued if self.attempt.queued.is_none() && !answered => {
                self.attempt.queued = Some(at);
                true
            }
            What::Acquired { owner, token, until, lock } if !answered => {
                self.attempt.ended = Some(at);
                if let Some(lock) = lock {
                    self.attempt.name = lock.clone();
                }
                let (owner, token) = (*owner, *token);
                self.attempt.hold = Some(Hold { owner, token, from: at, until: at });
                self.look(at, *until);
                true
            }
            What::NotAcquired { token, .. } if !answered => {
                self.attempt.ended = Some(at);
                self.attempt.busy = *token;
                true
            }
            What::Cancelled if !answered => {
                self.attempt.ended = Some(at);
                true
            }
            What::NotHeld if self.attempt.attaches.is_some() && !answered => {
                self.attempt.ended = Some(at);
                true
            }
            What::Detached => self.stopped.is_some(),
            What::Looked { until } if self.attempt.hold.is_some() => {
                self.look(at, *until);
                true
            }
            What::Lost { reason } if self.attempt.hold.is_some() => {
                // A client that closes releases at once; the holder of the guard sees it later.
                let end = match reason {
                    LossReason::Closed => self.last_seen.unwrap_or(self.attempt.asked),
                    _ => at,
                };
                self.stop(end);
                true
            }
            What::GivenUp if self.attempt.hold.is_some() => {
                self.stop(at);
                true
            }
            What::Released { .. } => self.attempt.hold.is_some(),
            _ => false,
        }
    }

    fn look(&mut self, at: Instant, until: Option<Instant>) {
        match until {
            Some(until) => {
                self.promised = self.promised.max(until);
                self.last_seen = self.last_seen.max(Some(at));
            }
            None => self.stop(at),
        }
    }

    fn stop(&mut self, at: Instant) {
        self.stopped = Some(self.stopped.map_or(at, |stopped| stopped.min(at)));
    }

    fn finish(mut self) -> Attempt {
        if let Some(hold) = &mut self.attempt.hold {
            hold.until = self.stopped.map_or(self.promised, |stopped| stopped.min(self.promised));
        }
        self.attempt
    }
}
