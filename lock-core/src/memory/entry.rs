//! The record of one lock: its token, its holders and its queue.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use tokio::sync::mpsc;

use crate::{
    Busy, Env, FencingToken, Grant, Holder, Instant, Mode, OwnerId, OwnerLabel, Request, Signal,
    StoreTime,
    tunables::memory::{
        CLAIM_WINDOW, ENTRY_LIFE, FAR_HEARTBEAT, HEARTBEAT, NEAR_ENTRIES, SHORTEST_PAUSE,
    },
};

/// The time of a step. Only a step that makes a token, or one of a record, reads the wall clock.
#[derive(Clone, Copy)]
pub(super) struct Now<'a> {
    pub(super) clock: Instant,
    pub(super) env: &'a dyn Env,
}

impl Now<'_> {
    fn mint(self, last: FencingToken, floor: FencingToken) -> Option<FencingToken> {
        FencingToken::mint(self.env.wall_micros(), last, floor)
    }

    pub(super) fn wall(self) -> StoreTime {
        StoreTime::from_micros(self.env.wall_micros())
    }
}

/// The record of one lock.
pub(super) struct Entry {
    pub(super) token: FencingToken,
    pub(super) holder: Option<Held>,
    pub(super) queue: VecDeque<QueueEntry>,
}

pub(super) struct Held {
    pub(super) owners: Owners,
    /// The label of the last owner that joined.
    label: OwnerLabel,
    pub(super) expires: Instant,
    /// Released, and kept for its minimum hold. A late request does not extend it.
    pub(super) kept: bool,
}

/// The owners that hold a lock.
pub(super) enum Owners {
    Writer(OwnerId),
    /// Never empty. Readers have one token. Each has the end of its own lease.
    Readers(HashMap<OwnerId, Instant>),
}

impl Held {
    pub(super) fn of(request: &Request, expires: Instant) -> Self {
        let (owners, label) = (Owners::of(request, expires), request.label.clone());
        Self { owners, label, expires, kept: false }
    }

    /// Prolongs the lease of `owner`, which holds the lock, and never shortens it.
    pub(super) fn prolong(&mut self, owner: OwnerId, expires: Instant) {
        self.expires = self.expires.max(expires);
        if let Owners::Readers(readers) = &mut self.owners
            && let Some(end) = readers.get_mut(&owner)
        {
            *end = expires.max(*end);
        }
    }

    /// Removes the readers whose leases are over. The lock ends with the latest lease of the
    /// others.
    fn forget_the_dead(&mut self, now: Instant) {
        if let Owners::Readers(readers) = &mut self.owners {
            readers.retain(|_, end| now < *end);
            self.expires = readers.values().copied().max().unwrap_or(now);
        }
    }
}

impl Owners {
    fn of(request: &Request, expires: Instant) -> Self {
        match request.mode {
            Mode::Exclusive => Self::Writer(request.owner),
            Mode::Shared => Self::Readers(HashMap::from([(request.owner, expires)])),
        }
    }

    pub(super) fn has(&self, owner: OwnerId) -> bool {
        match self {
            Self::Writer(holder) => *holder == owner,
            Self::Readers(readers) => readers.contains_key(&owner),
        }
    }

    /// Removes `owner`; `true` if it was the last one.
    pub(super) fn leave(&mut self, owner: OwnerId) -> bool {
        match self {
            Self::Writer(_) => true,
            Self::Readers(readers) => {
                readers.remove(&owner);
                readers.is_empty()
            }
        }
    }

    /// The readers, if `request` may join them.
    pub(super) fn joinable_by(
        &mut self,
        request: &Request,
    ) -> Option<&mut HashMap<OwnerId, Instant>> {
        match self {
            Self::Readers(readers)
                if request.mode == Mode::Shared && readers.len() < Mode::MOST_READERS =>
            {
                Some(readers)
            }
            _ => None,
        }
    }

    pub(super) fn mode(&self) -> Mode {
        match self {
            Self::Writer(_) => Mode::Exclusive,
            Self::Readers(_) => Mode::Shared,
        }
    }
}

pub(super) struct QueueEntry {
    pub(super) request: Request,
    pub(super) last_heartbeat: Instant,
    pub(super) wake: mpsc::UnboundedSender<Signal>,
}

impl Entry {
    /// A free lock.
    pub(super) fn new(token: FencingToken) -> Self {
        Self { token, holder: None, queue: VecDeque::new() }
    }

    /// The live grant of `owner`, and its token.
    pub(super) fn held_by(
        &mut self,
        owner: OwnerId,
        now: Now<'_>,
    ) -> Option<(&mut Held, &mut FencingToken)> {
        let held = self.holder.as_mut()?;
        held.forget_the_dead(now.clock);
        (held.owners.has(owner) && now.clock < held.expires).then_some((held, &mut self.token))
    }

    /// Drops an expired holder and expired queue entries, and hands a free lock to the first live
    /// entry. If that is a reader, all readers before the first writer get the lock.
    pub(super) fn advance(&mut self, now: Now<'_>, watermark: FencingToken) {
        if let Some(held) = &mut self.holder {
            held.forget_the_dead(now.clock);
        }
        if self.holder.as_ref().is_some_and(|held| held.expires <= now.clock) {
            self.holder = None;
        }
        while let Some(first) = self.queue.front() {
            let live = now.clock < first.last_heartbeat + ENTRY_LIFE;
            let waits = |held: &mut Held| match held.owners {
                Owners::Writer(_) => true,
                // An expired entry of a writer must not keep new readers out while other readers
                // hold the lock.
                Owners::Readers(_) => live && held.owners.joinable_by(&first.request).is_none(),
            };
            if self.holder.as_mut().is_some_and(waits) {
                return;
            }
            // If the receiver is gone, nobody would learn of the grant.
            let receives = |entry: &QueueEntry| live && !entry.wake.is_closed();
            let Some(entry) = self.queue.pop_front().filter(receives) else { continue };
            let Some(grant) = self.admit(&entry.request, CLAIM_WINDOW, now, watermark) else {
                return;
            };
            // If the receiver goes at this moment, the grant is released, or its claim window ends.
            let _ = entry.wake.send(Signal::Granted(grant.pushed(CLAIM_WINDOW)));
        }
    }

    /// Grants a free lock to the owner of `request`, or adds it to the readers; `None` if the
    /// tokens are used up.
    pub(super) fn admit(
        &mut self,
        request: &Request,
        lease: Duration,
        now: Now<'_>,
        watermark: FencingToken,
    ) -> Option<Grant> {
        let expires = now.clock + lease;
        let readers = self.holder.as_mut().and_then(|held| {
            held.expires = held.expires.max(expires);
            held.label = request.label.clone();
            held.owners.joinable_by(request)
        });
        if let Some(readers) = readers {
            readers.insert(request.owner, expires);
            if self.token <= request.floor {
                self.token = FencingToken::mint(0, self.token, request.floor)?;
            }
        } else {
            self.token = now.mint(self.token.max(watermark), request.floor)?;
            self.holder = Some(Held::of(request, expires));
        }
        Some(Grant::new(request, self.token).with_mode(request.mode))
    }

    pub(super) fn holder(&self, now: Now<'_>) -> Option<Holder> {
        let held = self.holder.as_ref()?;
        let (label, remaining) = (held.label.clone(), held.expires.since(now.clock));
        Some(match held.owners {
            Owners::Writer(owner) => Holder { owner, label, remaining },
            Owners::Readers(_) => Holder::readers(label, remaining),
        })
    }

    /// The answer to an owner that must wait. It counts as a heartbeat of the owner's queue entry.
    pub(super) fn busy(&mut self, request: &Request, now: Now<'_>) -> Busy {
        let at = self.queue.iter().position(|queued| queued.request.owner == request.owner);
        if let Some(entry) = at.and_then(|at| self.queue.get_mut(at)) {
            entry.last_heartbeat = now.clock;
        }
        let holder = self.holder(now);
        let left = holder.as_ref().map_or(Duration::ZERO, |holder| holder.remaining);
        // Far entries poll rarely even if the lease is short, because none of them is the next to
        // be served.
        let retry_after = if at.is_some_and(|at| at >= NEAR_ENTRIES) {
            FAR_HEARTBEAT
        } else {
            left.clamp(SHORTEST_PAUSE, HEARTBEAT)
        };
        Busy { holder, token: self.token, retry_after }
    }
}
