//! All locks of the store. Each method is one atomic step.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::sync::mpsc;

use super::{
    entry::{Entry, Held, Now, Owners, QueueEntry},
    records::Records,
};
use crate::{
    Busy, FencingToken, Grant, Guarantees, Instant, LockName, LockState, Mode, OwnerId,
    RecordWrite, Request, Signal, WriteOutcome,
    tunables::memory::{FEW_NAMES, TOMBSTONE_LIFE},
};

pub(super) struct Store {
    pub(super) promised: Arc<Guarantees>,
    /// Locks that are held or waited for. All others take no memory.
    locks: HashMap<LockName, Entry>,
    pub(super) records: Records,
    /// At least the last token of every name that is not in `locks`.
    watermark: FencingToken,
    /// Abandoned owners. Their late attempts get nothing.
    tombstones: HashSet<OwnerId>,
    /// The same owners, by age.
    abandoned: VecDeque<(Instant, OwnerId)>,
    /// The number of names at which the store sweeps out expired ones.
    sweep_at: usize,
}

/// The answer to an attempt. This store has no quarantine, because its data ends with the process.
pub(super) enum Answer {
    Granted(Grant),
    Busy(Busy),
}

impl Store {
    pub(super) fn new(promised: Guarantees) -> Self {
        Self {
            promised: Arc::new(promised),
            locks: HashMap::new(),
            records: Records::new(),
            watermark: FencingToken::ZERO,
            tombstones: HashSet::new(),
            abandoned: VecDeque::new(),
            sweep_at: FEW_NAMES,
        }
    }

    /// One attempt; `None` if the tokens are used up.
    pub(super) fn attempt(&mut self, request: &Request, now: Now<'_>) -> Option<Answer> {
        if self.locks.len() >= self.sweep_at {
            self.sweep(now);
        }
        let watermark = self.watermark;
        let entry = self.locks.entry(request.name.clone()).or_insert_with(|| Entry::new(watermark));
        entry.advance(now, watermark);
        if let Some(held) = &mut entry.holder {
            if held.owners.has(request.owner) && !held.kept {
                // A repeat extends the lease and keeps the token. It never shortens the lease,
                // because it may be a late request from before a renewal with a longer lease.
                held.prolong(request.owner, now.clock + request.lease);
                let grant = Grant::new(request, entry.token).with_mode(held.owners.mode());
                return Some(Answer::Granted(grant));
            }
            if !entry.queue.is_empty() || held.owners.joinable_by(request).is_none() {
                return Some(Answer::Busy(entry.busy(request, now)));
            }
        }
        if !self.tombstones.is_empty() && self.tombstones.contains(&request.owner) {
            let busy = entry.busy(request, now);
            self.step(&request.name, now, |_| ());
            return Some(Answer::Busy(busy));
        }
        // `advance` left no live entry, so the attempt passes nobody.
        entry.admit(request, request.lease, now, watermark).map(Answer::Granted)
    }

    /// Adds an entry to the end of the queue, or finds the entry of this owner. An abandoned owner
    /// gets none.
    pub(super) fn enqueue(
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
                    last_heartbeat: now.clock,
                    wake,
                }),
            }
        }
    }

    /// Extends a live grant by its full lease, but by no more than the longest lease, which may
    /// have been lowered since the grant. Returns the lease; `None` if the grant is gone.
    pub(super) fn renew(&mut self, grant: &Grant, now: Now<'_>) -> Option<Duration> {
        let lease = grant.lease.min(self.promised.longest_lease);
        let (held, _) = self.held(&grant.name, grant.owner, now).filter(|(held, _)| !held.kept)?;
        held.prolong(grant.owner, now.clock + lease);
        Some(lease)
    }

    /// Raises the token of a held grant; `false` if the grant is gone.
    pub(super) fn raise(&mut self, grant: &Grant, token: FencingToken, now: Now<'_>) -> bool {
        match self.held(&grant.name, grant.owner, now) {
            Some((_, stored)) => {
                *stored = token.max(*stored);
                true
            }
            None => false,
        }
    }

    /// Gives a held lock to the owner of `request`; `None` if the grant does not hold it alone.
    pub(super) fn reown(
        &mut self,
        grant: &Grant,
        request: &Request,
        now: Now<'_>,
    ) -> Option<Grant> {
        let barred = self.tombstones.contains(&request.owner);
        let entry = self.locks.get_mut(&grant.name)?;
        let is_repeat = entry.held_by(request.owner, now).is_some();
        let owner = if is_repeat { request.owner } else { grant.owner };
        let (held, token) = entry.held_by(owner, now)?;
        if held.kept || held.owners.mode() == Mode::Shared || *token != grant.token {
            return None;
        }
        let expires = now.clock + request.lease;
        if is_repeat {
            held.prolong(owner, expires);
        } else if barred {
            return None;
        } else {
            *held = Held::of(request, expires);
        }
        Some(Grant::new(request, *token))
    }

    /// Writes the record of a grant that holds its lock.
    pub(super) fn write_record(
        &mut self,
        grant: &Grant,
        write: &RecordWrite,
        now: Now<'_>,
    ) -> WriteOutcome {
        let held = self.held(&grant.name, grant.owner, now);
        if held.is_none_or(|(held, _)| held.kept || held.owners.mode() != Mode::Exclusive) {
            return WriteOutcome::NotHeld;
        }
        self.records.write(grant, write, now);
        WriteOutcome::Written
    }

    /// Releases a grant, or keeps it for `keep`; `false` if the grant is gone.
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

    /// Removes the holder of a lock; `false` if it was free.
    pub(super) fn force_release(&mut self, name: &LockName, now: Now<'_>) -> bool {
        let held = self.inspect(name, now).is_some_and(|state| state.holder.is_some());
        if held {
            self.step(name, now, |entry| entry.holder = None);
        }
        held
    }

    /// Removes the queue entry and the grant of an owner: the entry first, so that the lock is not
    /// handed to it. A grant that was released and is kept for its minimum hold stays.
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

    pub(super) fn inspect(&mut self, name: &LockName, now: Now<'_>) -> Option<LockState> {
        let watermark = self.watermark;
        let entry = self.locks.get_mut(name)?;
        entry.advance(now, watermark);
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

    /// Forgets names whose lease has ended without a request: nobody comes back after a crash or a
    /// minimum hold. It runs once each time the number of names has doubled, so its cost per name
    /// is constant.
    fn sweep(&mut self, now: Now<'_>) {
        let watermark = self.watermark;
        let mut raised = watermark;
        self.locks.retain(|_, entry| {
            entry.advance(now, watermark);
            let live = entry.holder.is_some() || !entry.queue.is_empty();
            if !live {
                raised = raised.max(entry.token);
            }
            live
        });
        self.watermark = raised;
        self.sweep_at = FEW_NAMES.max(2 * self.locks.len());
    }

    /// Changes a record, then hands a free lock over, or forgets the name.
    fn step<T>(
        &mut self,
        name: &LockName,
        now: Now<'_>,
        change: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        let watermark = self.watermark;
        let entry = self.locks.get_mut(name)?;
        let answer = change(entry);
        entry.advance(now, watermark);
        if entry.holder.is_none() && entry.queue.is_empty() {
            // Forgetting a name loses its token, so the watermark rises to it first.
            self.watermark = watermark.max(entry.token);
            self.locks.remove(name);
        }
        Some(answer)
    }
}
