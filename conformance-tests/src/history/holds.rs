//! A history by acquisition instead of by time.

use std::{collections::BTreeMap, time::Duration};

use lock_core::{FencingToken, Instant, LockName, LossReason, Mode, OwnerId};

use super::{Event, History, Op, What};

/// One acquisition, from the call to its answer.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Which one.
    pub op: Op,
    /// Whether it asked as a reader: two readers may hold together.
    pub mode: Mode,
    /// What it asked for; or the lock that it got instead, a slot of a semaphore or one of several.
    pub name: LockName,
    /// The semaphore that it asked, and how many permits that has.
    pub semaphore: Option<(LockName, u32)>,
    /// When it asked.
    pub asked: Instant,
    /// Since when it may have a place: an older acquisition of its process that gave up leaves it
    /// its own.
    pub place_since: Instant,
    /// From when on the store surely had a place for it.
    pub queued: Option<Instant>,
    /// When it was answered or cancelled; `None` if it never was.
    pub ended: Option<Instant>,
    /// The token that a `Busy` answer named.
    pub busy: Option<FencingToken>,
    /// What it was granted.
    pub hold: Option<Hold>,
}

/// What a guard's holder could believe.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The guard's owner.
    pub owner: OwnerId,
    /// The guard's token.
    pub token: FencingToken,
    /// When the acquire had returned.
    pub from: Instant,
    /// The end of what its holder surely believed, exclusive; `from` or before if nothing.
    pub until: Instant,
}

impl Hold {
    /// Whether there is an instant at which its holder surely believed.
    #[must_use]
    pub fn believed(&self) -> bool {
        self.from < self.until
    }
}

/// All acquisitions of a history, by name, in the order in which they were asked for.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    /// The acquisitions of each name.
    pub by_name: BTreeMap<LockName, Vec<Attempt>>,
    /// Acquisitions that were never answered: their process ended, or they are stuck.
    pub unanswered: Vec<Op>,
    /// Events that do not fit together: a mistake in the recording, or a library that answers twice.
    pub misfits: Vec<Event>,
}

impl Holds {
    /// Sorts the events of `history` by acquisition.
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
                What::Forced { name, began } => forced.push((name.clone(), *began, event.at)),
                // Checked by itself: a stale holder may write long after.
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

/// A place that was given up is passed on within this: its process may be about a call when the
/// next one asks.
const PASSING_ON: Duration = Duration::from_secs(5);

/// Finds who may have inherited whose place (L3).
fn inherit(attempts: &mut [Attempt]) {
    for at in 0..attempts.len() {
        let (older, later) = attempts.split_at_mut(at);
        let Some(later) = later.first_mut() else { continue };
        let left = |older: &&Attempt| {
            older.op.process == later.op.process
                && older.hold.is_none()
                && older.ended.is_none_or(|ended| ended + PASSING_ON >= later.asked)
        };
        if let Some(since) = older.iter().filter(left).map(|older| older.place_since).min() {
            later.place_since = later.place_since.min(since);
        }
    }
}

/// Ends beliefs where an operator freed the name: which came first at the store, the grant or that,
/// is unknown, so that the holder is not blamed after it.
fn excuse(attempts: &mut [Attempt], forced: &[(LockName, Instant, Instant)]) {
    for Attempt { name, place_since, hold, .. } in attempts {
        let Some(hold) = hold else { continue };
        for (_, began, _) in
            forced.iter().filter(|(freed, _, ended)| freed == name && *place_since <= *ended)
        {
            hold.until = hold.until.min(*began);
        }
    }
}

/// An acquisition while its events are gathered.
struct Parts {
    attempt: Attempt,
    /// The latest instant at which the guard was seen valid.
    last_seen: Option<Instant>,
    /// The latest end of validity that it has named.
    promised: Instant,
    /// The first event that ended the belief.
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
            place_since: event.at,
            queued: None,
            ended: None,
            busy: None,
            hold: None,
        };
        Self { attempt, last_seen: None, promised: event.at, stopped: None }
    }

    /// Takes an event of this acquisition; `false` if it cannot be one.
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
            What::Looked { until } if self.attempt.hold.is_some() => {
                self.look(at, *until);
                true
            }
            What::Lost { reason } if self.attempt.hold.is_some() => {
                // A client that closes releases at once; its guard's holder hears of it later.
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
