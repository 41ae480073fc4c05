//! The state of the store and its steps. Each method is one atomic step.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::sync::mpsc;

use crate::{
    Busy, Env, FencingToken, Grant, Guarantees, Holder, Instant, LockName, LockState, Mode,
    OwnerId, OwnerLabel, Request, Signal,
    tunables::memory::{
        CLAIM, FAR_HEARTBEAT, FEW_NAMES, HEARTBEAT, NEAR, PLACE_LIFE, SHORTEST_PAUSE,
        TOMBSTONE_LIFE,
    },
};

pub(super) struct Store {
    pub(super) promised: Arc<Guarantees>,
    /// Names that are held or waited for; others take no memory.
    locks: HashMap<LockName, Entry>,
    /// At least the last token of every name that is not in `locks`.
    watermark: FencingToken,
    /// Owners that were abandoned: a late attempt of theirs takes nothing.
    tombstones: HashSet<OwnerId>,
    /// The same, by age.
    abandoned: VecDeque<(Instant, OwnerId)>,
    /// With how many names the expired ones among them are to be forgotten.
    sweep_at: usize,
}

struct Entry {
    token: FencingToken,
    holder: Option<Held>,
    queue: VecDeque<QueueEntry>,
}

struct Held {
    owners: Owners,
    /// That of the last one that came.
    label: OwnerLabel,
    expires: Instant,
    /// Released, and kept for a last while: no late request lengthens it.
    kept: bool,
}

/// Who holds a lock.
enum Owners {
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

    fn has(&self, owner: OwnerId) -> bool {
        match self {
            Self::Writer(holder) => *holder == owner,
            Self::Readers(readers) => readers.contains(&owner),
        }
    }

    /// Lets `owner` go; whether it was the last one.
    fn leave(&mut self, owner: OwnerId) -> bool {
        match self {
            Self::Writer(_) => true,
            Self::Readers(readers) => {
                readers.remove(&owner);
                readers.is_empty()
            }
        }
    }

    /// The readers, if one more may join them for `request`.
    fn open_to(&mut self, request: &Request) -> Option<&mut HashSet<OwnerId>> {
        match self {
            Self::Readers(readers)
                if request.mode == Mode::Shared && readers.len() < Mode::MOST_READERS =>
            {
                Some(readers)
            }
            _ => None,
        }
    }

    fn mode(&self) -> Mode {
        match self {
            Self::Writer(_) => Mode::Exclusive,
            Self::Readers(_) => Mode::Shared,
        }
    }
}

struct QueueEntry {
    request: Request,
    heard: Instant,
    wake: mpsc::UnboundedSender<Signal>,
}

/// The answer to an attempt, before it is dressed for the trait.
pub(super) enum Answer {
    Granted(Grant),
    Busy(Busy),
}

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

impl Store {
    pub(super) fn new(promised: Guarantees) -> Self {
        Self {
            promised: Arc::new(promised),
            locks: HashMap::new(),
            watermark: FencingToken::ZERO,
            tombstones: HashSet::new(),
            abandoned: VecDeque::new(),
            sweep_at: FEW_NAMES,
        }
    }

    /// One attempt. The token numbers are used up in the year 2255: `None`.
    pub(super) fn attempt(&mut self, request: &Request, now: Now<'_>) -> Option<Answer> {
        if self.locks.len() >= self.sweep_at {
            self.sweep(now);
        }
        let watermark = self.watermark;
        let entry = self.locks.entry(request.name.clone()).or_insert_with(|| Entry {
            token: watermark,
            holder: None,
            queue: VecDeque::new(),
        });
        entry.pass_over(now, watermark);
        if let Some(held) = &mut entry.holder {
            if held.owners.has(request.owner) && !held.kept {
                // A repeat sets the whole lease anew and keeps the token. It may be a late one, of
                // before a renewal with a longer lease: it never shortens.
                held.expires = held.expires.max(now.clock + request.lease);
                let grant = Grant::new(request, entry.token).with_mode(held.owners.mode());
                return Some(Answer::Granted(grant));
            }
            if !entry.queue.is_empty() || held.owners.open_to(request).is_none() {
                return Some(Answer::Busy(entry.busy(request, now)));
            }
        }
        if !self.tombstones.is_empty() && self.tombstones.contains(&request.owner) {
            let busy = entry.busy(request, now);
            self.step(&request.name, now, |_| ());
            return Some(Answer::Busy(busy));
        }
        // `pass_over` left no live place, so the attempt barges past no place.
        entry.admit(request, request.lease, now, watermark).map(Answer::Granted)
    }

    /// Puts a place at the end of the queue, or finds the one that this owner has. An abandoned owner
    /// gets none.
    pub(super) fn queue(
        &mut self,
        request: &Request,
        wake: mpsc::UnboundedSender<Signal>,
        now: Now<'_>,
    ) {
        if self.tombstones.contains(&request.owner) {
            return;
        }
        if let Some(entry) = self.locks.get_mut(&request.name) {
            match entry.queue.iter_mut().find(|queued| queued.request.owner == request.owner) {
                Some(queued) => queued.wake = wake,
                None => entry.queue.push_back(QueueEntry {
                    request: request.clone(),
                    heard: now.clock,
                    wake,
                }),
            }
        }
    }

    /// The whole lease anew, for a grant that is still there; no more than the longest lease, which may have been
    /// lowered since the grant. Returns the lease.
    pub(super) fn renew(&mut self, grant: &Grant, now: Now<'_>) -> Option<Duration> {
        let lease = grant.lease.min(self.promised.longest_lease);
        let (held, _) = self.held(&grant.name, grant.owner, now).filter(|(held, _)| !held.kept)?;
        held.expires = held.expires.max(now.clock + lease);
        Some(lease)
    }

    /// Lifts the token of a held grant.
    pub(super) fn raise(&mut self, grant: &Grant, token: FencingToken, now: Now<'_>) -> bool {
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
        now: Now<'_>,
    ) -> bool {
        self.step(name, now, |entry| match (entry.held_by(owner, now), keep) {
            (None, _) => false,
            (Some((held, _)), Some(keep)) if held.owners.mode() == Mode::Exclusive => {
                (held.expires, held.kept) = (now.clock + keep, true);
                true
            }
            (Some((held, _)), _) => {
                if held.owners.leave(owner) {
                    entry.holder = None;
                }
                true
            }
        })
        .unwrap_or(false)
    }

    /// Removes the holder of the name.
    pub(super) fn force(&mut self, name: &LockName, now: Now<'_>) -> bool {
        let held = self.look(name, now).is_some_and(|state| state.holder.is_some());
        if held {
            self.step(name, now, |entry| entry.holder = None);
        }
        held
    }

    /// Removes the place and the grant of an owner: its place first, so that the lock is not handed to it. A grant
    /// that was released, and is kept, stays.
    pub(super) fn abandon(&mut self, name: &LockName, owner: OwnerId, now: Now<'_>) {
        while let Some((at, owner)) = self.abandoned.front()
            && *at + TOMBSTONE_LIFE <= now.clock
        {
            self.tombstones.remove(owner);
            self.abandoned.pop_front();
        }
        if self.tombstones.insert(owner) {
            self.abandoned.push_back((now.clock, owner));
        }
        self.step(name, now, |entry| {
            entry.queue.retain(|queued| queued.request.owner != owner);
            entry
                .holder
                .take_if(|held| held.owners.has(owner) && !held.kept && held.owners.leave(owner));
        });
    }

    pub(super) fn look(&mut self, name: &LockName, now: Now<'_>) -> Option<LockState> {
        let watermark = self.watermark;
        let entry = self.locks.get_mut(name)?;
        entry.pass_over(now, watermark);
        let kept = entry.holder.as_ref().is_some_and(|held| held.kept);
        let readers = entry.holder.as_ref().and_then(|held| match &held.owners {
            Owners::Writer(_) => None,
            Owners::Readers(readers) => Some(readers.len() as u64),
        });
        let state = LockState::new(name.clone(), entry.holder(now), entry.token).with_kept(kept);
        Some(state.with_readers(readers).with_waiting(entry.queue.len() as u64))
    }

    pub(super) fn names(&self) -> Vec<LockName> {
        self.locks.keys().cloned().collect()
    }

    fn held(
        &mut self,
        name: &LockName,
        owner: OwnerId,
        now: Now<'_>,
    ) -> Option<(&mut Held, &mut FencingToken)> {
        self.locks.get_mut(name)?.held_by(owner, now)
    }

    /// Forgets names whose lease ran out unnoticed: a holder that crashed or a minimum hold comes back
    /// to none of them. Once per doubling, so that it costs each name a constant.
    fn sweep(&mut self, now: Now<'_>) {
        let watermark = self.watermark;
        let mut raised = watermark;
        self.locks.retain(|_, entry| {
            entry.pass_over(now, watermark);
            let live = entry.holder.is_some() || !entry.queue.is_empty();
            if !live {
                raised = raised.max(entry.token);
            }
            live
        });
        self.watermark = raised;
        self.sweep_at = FEW_NAMES.max(2 * self.locks.len());
    }

    /// Changes an entry, then hands a free lock over or forgets the name.
    fn step<T>(
        &mut self,
        name: &LockName,
        now: Now<'_>,
        change: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        let watermark = self.watermark;
        let entry = self.locks.get_mut(name)?;
        let answer = change(entry);
        entry.pass_over(now, watermark);
        if entry.holder.is_none() && entry.queue.is_empty() {
            // A step that forgets a name's token raises the watermark to it first.
            self.watermark = watermark.max(entry.token);
            self.locks.remove(name);
        }
        Some(answer)
    }
}

impl Entry {
    /// The live grant of `owner`, and the token that goes with it.
    fn held_by(&mut self, owner: OwnerId, now: Now<'_>) -> Option<(&mut Held, &mut FencingToken)> {
        let held = self.holder.as_mut()?;
        (held.owners.has(owner) && now.clock < held.expires).then_some((held, &mut self.token))
    }

    /// Drops an expired holder and dead places, and hands a free lock to the first live place: to all readers that stand
    /// before the first writer.
    fn pass_over(&mut self, now: Now<'_>, watermark: FencingToken) {
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
    fn admit(
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

    fn holder(&self, now: Now<'_>) -> Option<Holder> {
        let held = self.holder.as_ref()?;
        let (label, remaining) = (held.label.clone(), held.expires.since(now.clock));
        Some(match held.owners {
            Owners::Writer(owner) => Holder { owner, label, remaining },
            Owners::Readers(_) => Holder::readers(label, remaining),
        })
    }

    /// The answer to an owner that has to wait; hearing of a place keeps it.
    fn busy(&mut self, request: &Request, now: Now<'_>) -> Busy {
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
