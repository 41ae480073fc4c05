//! The state of the store and its steps. Each method is one atomic step.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::sync::mpsc;

use super::Memory;
use crate::{
    Busy, FencingToken, Grant, Guarantees, Holder, Instant, LockName, LockState, OwnerId,
    OwnerLabel, Request, Signal,
};

pub(super) struct Store {
    pub(super) promised: Arc<Guarantees>,
    /// Names that are held or waited for; others take no memory.
    locks: HashMap<LockName, Entry>,
    /// At least the last token of every name that is not in `locks`.
    watermark: FencingToken,
}

struct Entry {
    token: FencingToken,
    holder: Option<Held>,
    queue: VecDeque<Place>,
}

struct Held {
    owner: OwnerId,
    label: OwnerLabel,
    expires: Instant,
}

struct Place {
    request: Request,
    heard: Instant,
    wake: mpsc::UnboundedSender<Signal>,
}

/// The answer to an attempt, before it is dressed for the trait.
pub(super) enum Answer {
    Granted(Grant),
    Busy(Busy),
}

/// Both clocks, read once per step.
#[derive(Clone, Copy)]
pub(super) struct Now {
    pub(super) clock: Instant,
    pub(super) wall_micros: u64,
}

impl Store {
    pub(super) fn new(promised: Guarantees) -> Self {
        Self { promised: Arc::new(promised), locks: HashMap::new(), watermark: FencingToken::ZERO }
    }

    /// One attempt. The token numbers are used up in the year 2255: `None`.
    pub(super) fn attempt(&mut self, request: &Request, now: Now) -> Option<Answer> {
        let watermark = self.watermark;
        let entry = self.locks.entry(request.name.clone()).or_insert_with(|| Entry {
            token: watermark,
            holder: None,
            queue: VecDeque::new(),
        });
        entry.pass_over(now, watermark);
        if let Some(held) = &mut entry.holder {
            if held.owner == request.owner {
                // A repeat sets the whole lease anew and keeps the token.
                held.expires = now.clock + request.lease;
                return Some(Answer::Granted(Grant::new(request, entry.token)));
            }
            return Some(Answer::Busy(entry.busy(request, now)));
        }
        // `pass_over` left no live place, so there is nobody to barge past.
        entry.token =
            FencingToken::mint(now.wall_micros, entry.token.max(watermark), request.floor)?;
        entry.holder = Some(Held {
            owner: request.owner,
            label: request.label.clone(),
            expires: now.clock + request.lease,
        });
        Some(Answer::Granted(Grant::new(request, entry.token)))
    }

    /// Puts a place at the end of the queue, or finds the one that this owner has.
    pub(super) fn queue(
        &mut self,
        request: &Request,
        wake: mpsc::UnboundedSender<Signal>,
        now: Now,
    ) {
        if let Some(entry) = self.locks.get_mut(&request.name) {
            match entry.queue.iter_mut().find(|place| place.request.owner == request.owner) {
                Some(place) => place.wake = wake,
                None => entry.queue.push_back(Place {
                    request: request.clone(),
                    heard: now.clock,
                    wake,
                }),
            }
        }
    }

    /// The whole lease anew, for a grant that is still there.
    pub(super) fn renew(&mut self, grant: &Grant, now: Now) -> bool {
        match self.held(&grant.name, grant.owner, now) {
            Some((held, _)) => {
                held.expires = now.clock + grant.lease;
                true
            }
            None => false,
        }
    }

    /// Lifts the token of a held grant.
    pub(super) fn raise(&mut self, grant: &Grant, token: FencingToken, now: Now) -> bool {
        match self.held(&grant.name, grant.owner, now) {
            Some((_, stored)) => {
                *stored = token.max(*stored);
                true
            }
            None => false,
        }
    }

    /// Gives a grant back, or keeps it for `keep`.
    pub(super) fn release(
        &mut self,
        name: &LockName,
        owner: OwnerId,
        keep: Option<Duration>,
        now: Now,
    ) -> bool {
        let Some((held, _)) = self.held(name, owner, now) else { return false };
        match keep {
            Some(keep) => held.expires = now.clock + keep,
            None => self.free(name, now),
        }
        true
    }

    /// Removes whoever holds the name.
    pub(super) fn force(&mut self, name: &LockName, now: Now) -> bool {
        let held = self.look(name, now).is_some_and(|state| state.holder.is_some());
        if held {
            self.free(name, now);
        }
        held
    }

    /// Removes a place.
    pub(super) fn leave(&mut self, name: &LockName, owner: OwnerId, now: Now) {
        if let Some(entry) = self.locks.get_mut(name) {
            entry.queue.retain(|place| place.request.owner != owner);
        }
        self.tidy(name, now);
    }

    pub(super) fn look(&mut self, name: &LockName, now: Now) -> Option<LockState> {
        let watermark = self.watermark;
        let entry = self.locks.get_mut(name)?;
        entry.pass_over(now, watermark);
        let state = LockState::new(name.clone(), entry.holder(now), entry.token);
        Some(state.with_waiting(entry.queue.len() as u64))
    }

    pub(super) fn names(&self) -> Vec<LockName> {
        self.locks.keys().cloned().collect()
    }

    fn held(
        &mut self,
        name: &LockName,
        owner: OwnerId,
        now: Now,
    ) -> Option<(&mut Held, &mut FencingToken)> {
        let Entry { holder, token, .. } = self.locks.get_mut(name)?;
        let held = holder.as_mut()?;
        (held.owner == owner && now.clock < held.expires).then_some((held, token))
    }

    /// Ends the present grant and hands the lock over, or forgets the name.
    fn free(&mut self, name: &LockName, now: Now) {
        if let Some(entry) = self.locks.get_mut(name) {
            entry.holder = None;
        }
        self.tidy(name, now);
    }

    fn tidy(&mut self, name: &LockName, now: Now) {
        let watermark = self.watermark;
        if let Some(entry) = self.locks.get_mut(name) {
            entry.pass_over(now, watermark);
            if entry.holder.is_none() && entry.queue.is_empty() {
                // Whatever forgets a name's token raises the watermark to it first.
                self.watermark = watermark.max(entry.token);
                self.locks.remove(name);
            }
        }
    }
}

impl Entry {
    /// Drops an expired holder and dead places, and hands a free lock to the first live place.
    fn pass_over(&mut self, now: Now, watermark: FencingToken) {
        if self.holder.as_ref().is_some_and(|held| held.expires <= now.clock) {
            self.holder = None;
        }
        while self.holder.is_none() {
            let Some(place) = self.queue.pop_front() else { return };
            if place.heard + Memory::PLACE_LIFE <= now.clock {
                continue;
            }
            let floor = place.request.floor;
            let last = self.token.max(watermark);
            let Some(token) = FencingToken::mint(now.wall_micros, last, floor) else { return };
            let grant = Grant::new(&place.request, token).pushed(Memory::CLAIM);
            if place.wake.send(Signal::Granted(grant)).is_err() {
                continue;
            }
            self.token = token;
            self.holder = Some(Held {
                owner: place.request.owner,
                label: place.request.label,
                expires: now.clock + Memory::CLAIM,
            });
        }
    }

    fn holder(&self, now: Now) -> Option<Holder> {
        let held = self.holder.as_ref()?;
        Some(Holder {
            owner: held.owner,
            label: held.label.clone(),
            remaining: held.expires.since(now.clock),
        })
    }

    /// The answer to an owner that has to wait; hearing of a place keeps it.
    fn busy(&mut self, request: &Request, now: Now) -> Busy {
        if let Some(place) =
            self.queue.iter_mut().find(|place| place.request.owner == request.owner)
        {
            place.heard = now.clock;
        }
        let holder = self.holder(now);
        let left = holder.as_ref().map_or(Duration::ZERO, |holder| holder.remaining);
        let retry_after = left.clamp(Duration::from_millis(1), Memory::HEARTBEAT);
        Busy { holder, token: self.token, retry_after }
    }
}
