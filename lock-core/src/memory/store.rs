//! All locks of the store, and its steps. Each method is one atomic step.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::sync::mpsc;

use super::entry::{Entry, Held, Now, Owners, QueueEntry};
use crate::{
    Busy, FencingToken, Grant, Guarantees, Instant, LockName, LockState, Mode, OwnerId, Request,
    Signal,
    tunables::memory::{FEW_NAMES, TOMBSTONE_LIFE},
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

/// The answer to an attempt, before it is dressed for the trait.
pub(super) enum Answer {
    Granted(Grant),
    Busy(Busy),
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
        let entry = self.locks.entry(request.name.clone()).or_insert_with(|| Entry::new(watermark));
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
