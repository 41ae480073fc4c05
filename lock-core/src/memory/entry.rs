//! One lock: its token, its holders and its queue.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use tokio::sync::mpsc;

use crate::{
    Busy, Env, FencingToken, Grant, Holder, Instant, Mode, OwnerId, OwnerLabel, Request, Signal,
    tunables::memory::{CLAIM, FAR_HEARTBEAT, HEARTBEAT, NEAR, PLACE_LIFE, SHORTEST_PAUSE},
};

/// The moment of a step. Only a step that mints a token looks at the wall clock.
#[derive(Clone, Copy)]
pub(super) struct Now<'a> {
    pub(super) clock: Instant,
    pub(super) env: &'a dyn Env,
}

impl Now<'_> {
    fn mint(self, last: FencingToken, floor: FencingToken) -> Option<FencingToken> {
        FencingToken::mint(self.env.wall_micros(), last, floor)
    }
}

/// What the store has of a name.
pub(super) struct Entry {
    pub(super) token: FencingToken,
    pub(super) holder: Option<Held>,
    pub(super) queue: VecDeque<QueueEntry>,
}

pub(super) struct Held {
    pub(super) owners: Owners,
    /// That of the last one that came.
    label: OwnerLabel,
    pub(super) expires: Instant,
    /// Released, and kept for a last while: no late request lengthens it.
    pub(super) kept: bool,
}

/// Who holds a lock.
pub(super) enum Owners {
    Writer(OwnerId),
    /// They have one token and one lease, which ends with the last one of theirs. Never empty.
    Readers(HashSet<OwnerId>),
}

impl Owners {
    fn of(request: &Request) -> Self {
        match request.mode {
            Mode::Exclusive => Self::Writer(request.owner),
            Mode::Shared => Self::Readers(HashSet::from([request.owner])),
        }
    }

    pub(super) fn has(&self, owner: OwnerId) -> bool {
        match self {
            Self::Writer(holder) => *holder == owner,
            Self::Readers(readers) => readers.contains(&owner),
        }
    }

    /// Lets `owner` go; whether it was the last one.
    pub(super) fn leave(&mut self, owner: OwnerId) -> bool {
        match self {
            Self::Writer(_) => true,
            Self::Readers(readers) => {
                readers.remove(&owner);
                readers.is_empty()
            }
        }
    }

    /// The readers, if one more may join them for `request`.
    pub(super) fn open_to(&mut self, request: &Request) -> Option<&mut HashSet<OwnerId>> {
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
    pub(super) heard: Instant,
    pub(super) wake: mpsc::UnboundedSender<Signal>,
}

impl Entry {
    /// A lock that nobody holds.
    pub(super) fn new(token: FencingToken) -> Self {
        Self { token, holder: None, queue: VecDeque::new() }
    }

    /// The live grant of `owner`, and the token that goes with it.
    pub(super) fn held_by(
        &mut self,
        owner: OwnerId,
        now: Now<'_>,
    ) -> Option<(&mut Held, &mut FencingToken)> {
        let held = self.holder.as_mut()?;
        (held.owners.has(owner) && now.clock < held.expires).then_some((held, &mut self.token))
    }

    /// Drops an expired holder and dead places, and hands a free lock to the first live place: to all readers that stand
    /// before the first writer.
    pub(super) fn pass_over(&mut self, now: Now<'_>, watermark: FencingToken) {
        if self.holder.as_ref().is_some_and(|held| held.expires <= now.clock) {
            self.holder = None;
        }
        while let Some(first) = self.queue.front() {
            let live = now.clock < first.heard + PLACE_LIFE;
            let waits = |held: &mut Held| match held.owners {
                Owners::Writer(_) => true,
                // A dead writer's place is not to keep readers out for as long as there are others.
                Owners::Readers(_) => live && held.owners.open_to(&first.request).is_none(),
            };
            if self.holder.as_mut().is_some_and(waits) {
                return;
            }
            // Of one whose receiver is gone nobody would learn that it has the lock.
            let heard = |place: &QueueEntry| live && !place.wake.is_closed();
            let Some(place) = self.queue.pop_front().filter(heard) else { continue };
            let Some(grant) = self.admit(&place.request, CLAIM, now, watermark) else { return };
            // If it goes in this moment, the grant is given back, or its claim window ends.
            let _ = place.wake.send(Signal::Granted(grant.pushed(CLAIM)));
        }
    }

    /// Makes the owner of `request` the holder of a free lock, or a reader beside the others; `None` if the tokens are
    /// used up.
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
            held.owners.open_to(request)
        });
        if let Some(readers) = readers {
            readers.insert(request.owner);
            if self.token <= request.floor {
                self.token = FencingToken::mint(0, self.token, request.floor)?;
            }
        } else {
            self.token = now.mint(self.token.max(watermark), request.floor)?;
            let (owners, label) = (Owners::of(request), request.label.clone());
            self.holder = Some(Held { owners, label, expires, kept: false });
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

    /// The answer to an owner that has to wait; hearing of a place keeps it.
    pub(super) fn busy(&mut self, request: &Request, now: Now<'_>) -> Busy {
        let at = self.queue.iter().position(|queued| queued.request.owner == request.owner);
        if let Some(place) = at.and_then(|at| self.queue.get_mut(at)) {
            place.heard = now.clock;
        }
        let holder = self.holder(now);
        let left = holder.as_ref().map_or(Duration::ZERO, |holder| holder.remaining);
        // However short the lease is, of the far ones none is the next to be served.
        let retry_after = if at.is_some_and(|at| at >= NEAR) {
            FAR_HEARTBEAT
        } else {
            left.clamp(SHORTEST_PAUSE, HEARTBEAT)
        };
        Busy { holder, token: self.token, retry_after }
    }
}
