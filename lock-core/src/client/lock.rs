//! A lock about to be acquired: `client.lock(name).lease(d).wait(d)`.

use std::{sync::Arc, time::Duration};

use super::{
    state::{ClientState, Handle, Wanted},
    waiting::{Limit, QuarantineWait},
};
use crate::{Error, LockName, Mode, Quarantined};

/// A lock about to be acquired. Made by [`LockClient::lock`](crate::LockClient::lock).
#[derive(Clone)]
#[must_use = "nothing happens until `acquire` or `try_acquire`"]
pub struct Lock {
    pub(super) handle: Arc<Handle>,
    pub(super) name: Result<LockName, Error>,
    pub(super) wanted: Wanted,
    pub(super) wait: Option<Duration>,
    quarantine: Option<Limit>,
}

impl Lock {
    pub(crate) fn new(handle: Arc<Handle>, name: Result<LockName, Error>) -> Self {
        let lease = handle.options.lease;
        let mode = Mode::Exclusive;
        let wanted = Wanted { mode, lease, at_least: None, hold_at_most: None };
        Self { handle, name, wanted, wait: None, quarantine: None }
    }

    /// Shares the lock with other readers, and keeps writers out. A writer acquires the plain lock of the same name.
    ///
    /// Use it for long reads and rare writes. Each reader costs the store as much as a writer: if a read is as short as a
    /// call to the store, the plain lock is no slower.
    ///
    /// *Guarantees*: as far as the store promises [`shared`](crate::Guarantees), no reader holds the lock beside a writer. If
    /// the store is fair, a later reader does not pass a waiting writer, so readers do not starve writers. A reader's
    /// token is above those of all writers before it, and below those of all writers after it. Each reader asks the
    /// store, also if others of this process share the lock: otherwise it would pass the waiting writers of other
    /// processes. [`Guard::reenter`](crate::Guard::reenter) shares one hold without a call to the store.
    ///
    /// A reader cannot become a writer, nor a writer a reader: two readers that wait for each other to leave would wait
    /// for ever. Release the lock, acquire the other kind, and read the data again.
    ///
    /// *Durations*: a reader that crashed delays writers by at most the longest lease of the readers that shared the lock
    /// with it. That lease counts from the last renewal of any of them.
    ///
    /// *Errors*: `Unsupported` with the reason, before the store is touched, if the store has no shared locks.
    /// `InvalidInput` together with [`at_least`](Self::at_least). If
    /// [`Guarantees::most_readers`](crate::Guarantees) share a lock, it is busy for more readers.
    pub fn shared(mut self) -> Self {
        self.wanted.mode = Mode::Shared;
        self
    }

    /// Sets how long the store keeps the lock without renewal. Default: the client's `lease`. It must be within the
    /// store's [`Guarantees`](crate::Guarantees): `shortest_lease` to `longest_lease`.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.wanted.lease = lease;
        self
    }

    /// Sets how long [`acquire`](Lock::acquire) waits. Default: for ever. Zero makes one attempt. After a suspend of
    /// the machine the wait may last up to a second longer.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets how long [`acquire`](Lock::acquire) waits for a quarantine to end; [`wait`](Lock::wait) starts afterwards.
    /// Default: a quarantine counts as any wait, so that a caller of `wait(2 s)` has its answer after 2 s.
    ///
    /// `limit` is called once, with the store's answer, and returns how long to wait for the quarantine.
    /// `|quarantine| quarantine.remaining` waits for its end, and up to 1% and 2 s more, since clocks differ and a store
    /// may count whole seconds. Zero does not wait. After the limit the rest of the quarantine counts as any wait.
    ///
    /// For jobs that must run once, with a `wait` of zero: a quarantine begins only with the first request after a loss
    /// of data, so every machine that starts the job finds it. They all come back at its end. One gets the lock,
    /// and [`at_least`](Lock::at_least) keeps it from those that come a little later.
    pub fn wait_for_quarantine<F>(mut self, limit: F) -> Self
    where
        F: Fn(&Quarantined) -> Duration + Send + Sync + 'static,
    {
        self.quarantine = Some(Arc::new(limit));
        self
    }

    /// Keeps the lock for at least this long from its acquisition, also if it is released before. Default: no
    /// minimum. It must be at most the store's longest lease.
    ///
    /// For a job that several machines start by their clocks: set it longer than those clocks differ.
    pub fn at_least(mut self, span: Duration) -> Self {
        self.wanted.at_least = Some(span);
        self
    }

    /// Ends renewal, and the guard's validity, this long after the acquisition. Default: no limit. It must be longer
    /// than 0 s, and not shorter than [`at_least`](Lock::at_least).
    pub fn hold_at_most(mut self, span: Duration) -> Self {
        self.wanted.hold_at_most = Some(span);
        self
    }

    pub(super) fn name(&self) -> Result<&LockName, Error> {
        self.name.as_ref().map_err(Error::clone)
    }

    pub(super) fn state(&self) -> &Arc<ClientState> {
        &self.handle.0
    }

    /// The same options for another name.
    pub(super) fn renamed(&self, name: Result<LockName, Error>) -> Self {
        Self { name, ..self.clone() }
    }

    /// The same lock with a lease of at most `longest`, and without `at_least` and `hold_at_most`.
    pub(super) fn for_a_door(&self, longest: Duration) -> Self {
        let (mode, lease) = (Mode::Exclusive, self.wanted.lease.min(longest));
        Self { wanted: Wanted { mode, lease, at_least: None, hold_at_most: None }, ..self.clone() }
    }

    /// Waits for the shorter of this limit and its own.
    pub(super) fn wait_at_most(self, limit: Option<Duration>) -> Self {
        match limit {
            Some(limit) => {
                let wait = self.wait.map_or(limit, |wait| wait.min(limit));
                self.wait(wait)
            }
            None => self,
        }
    }

    pub(super) fn checked(&self) -> Result<&LockName, Error> {
        let name = self.name()?;
        self.wanted.check(&self.handle.backend.guarantees()).map_err(|error| error.on(name))?;
        Ok(name)
    }

    /// How long it waits for a quarantine.
    pub(super) fn patience(&self) -> QuarantineWait {
        QuarantineWait::new(self.quarantine.clone())
    }

    /// Whether it does not wait.
    pub(super) fn is_at_once(&self) -> bool {
        self.wait == Some(Duration::ZERO)
    }
}
