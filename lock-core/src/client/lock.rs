//! The options of one acquire: `client.lock(name).lease(d).wait(d)`.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    lock_client::LockClient,
    state::{ClientState, Handle, Wanted},
    waiting::{Limit, QuarantineWait},
};
use crate::{Error, LockName, Mode, Quarantined};

/// A lock and the options to acquire it with. Made by
/// [`LockClient::lock`](crate::LockClient::lock).
#[derive(Clone)]
#[must_use = "nothing happens until `acquire` or `try_acquire`"]
pub struct Lock {
    pub(super) handle: Arc<Handle>,
    pub(super) name: Result<LockName, Error>,
    pub(super) wanted: Wanted,
    pub(super) wait: Option<Duration>,
    quarantine: Option<Limit>,
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Lock");
        match &self.name {
            Ok(name) => shown.field("name", name),
            Err(refused) => shown.field("name", refused),
        };
        shown.field("options", &self.wanted).field("wait", &self.wait).finish_non_exhaustive()
    }
}

impl LockClient {
    /// The lock with this name, to set its options and acquire it. An invalid name is an error of
    /// [`Lock::acquire`] and [`Lock::try_acquire`].
    pub fn lock<N>(&self, name: N) -> Lock
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        Lock::new(Arc::clone(&self.handle), name.try_into().map_err(Into::into))
    }
}

impl Lock {
    pub(crate) fn new(handle: Arc<Handle>, name: Result<LockName, Error>) -> Self {
        let lease = handle.options.lease;
        let mode = Mode::Exclusive;
        let wanted = Wanted { mode, lease, at_least: None, hold_at_most: None };
        Self { handle, name, wanted, wait: None, quarantine: None }
    }

    /// Shares the lock with other readers, and keeps writers out. A writer acquires the lock of the
    /// same name without this option.
    ///
    /// Use it for long reads and rare writes. Each reader costs the store as much as a writer. If a
    /// read is as short as a call to the store, an exclusive lock is no slower.
    ///
    /// # Guarantees
    ///
    /// If the store promises [`shared`](crate::Guarantees), no reader holds the lock beside a
    /// writer. If the store is fair, a later reader does not pass a waiting writer, so readers do
    /// not starve writers. A reader's token is above those of all earlier writers, and below those
    /// of all later writers. Each reader calls the store, even if other readers of this process
    /// hold the lock. Otherwise it would pass waiting writers of other processes. To share one hold
    /// without a call to the store, use [`Guard::reenter`](crate::Guard::reenter).
    ///
    /// A reader cannot become a writer, nor a writer a reader: two readers would wait for ever for
    /// each other to leave. Release the lock, acquire it in the other mode, and read the data
    /// again.
    ///
    /// # Durations
    ///
    /// A crashed reader delays writers by at most the longest lease of all readers that shared the
    /// lock with it. That lease counts from the last renewal of any of them.
    ///
    /// # Errors
    ///
    /// `Unsupported` with the reason, before anything is sent to the store, if the store has no
    /// shared locks. `InvalidInput` together with [`at_least`](Self::at_least). If
    /// [`Guarantees::most_readers`](crate::Guarantees) share the lock, it is busy for more readers.
    pub fn shared(mut self) -> Self {
        self.wanted.mode = Mode::Shared;
        self
    }

    /// Sets how long the store keeps the lock without renewal. Default: the client's `lease`. It
    /// must be between `shortest_lease` and `longest_lease` of the store's
    /// [`Guarantees`](crate::Guarantees).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.wanted.lease = lease;
        self
    }

    /// Sets how long [`acquire`](Lock::acquire) waits. Default: for ever. Zero makes one attempt.
    /// After a suspend of the machine the wait may end up to a second late.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets how long [`acquire`](Lock::acquire) waits for the end of a quarantine, before
    /// [`wait`](Lock::wait) starts. Default: a quarantine counts towards `wait`, so that a caller
    /// with `wait(2 s)` has its answer after 2 s.
    ///
    /// The client calls `limit` once, with the store's answer. `limit` returns how long to wait for
    /// the quarantine: `|quarantine| quarantine.remaining` waits for its end, and up to 1% and 2 s
    /// longer, because clocks differ and a store may count whole seconds. Zero does not wait. After
    /// the limit, the rest of the quarantine counts towards `wait`.
    ///
    /// Use it with a `wait` of zero for jobs that must run once. A quarantine begins only with the
    /// first request after a loss of data, so every machine that starts the job finds it. All of
    /// them try again at its end, and one gets the lock. [`at_least`](Lock::at_least) keeps it from
    /// those that try a little later.
    pub fn wait_for_quarantine<F>(mut self, limit: F) -> Self
    where
        F: Fn(&Quarantined) -> Duration + Send + Sync + 'static,
    {
        self.quarantine = Some(Arc::new(limit));
        self
    }

    /// Keeps the lock for at least this long after the acquire, even if it is released earlier (a
    /// minimum hold). Default: no minimum. It must be at most the store's longest lease.
    ///
    /// For a job that several machines start by their clocks, set it to more than the difference of
    /// these clocks.
    pub fn at_least(mut self, span: Duration) -> Self {
        self.wanted.at_least = Some(span);
        self
    }

    /// Ends renewal and the guard's validity this long after the acquire. Default: no limit. It
    /// must be longer than 0 s, and not shorter than [`at_least`](Lock::at_least).
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

    pub(super) fn client(&self) -> LockClient {
        LockClient { handle: Arc::clone(&self.handle) }
    }

    /// The same options for another name.
    pub(super) fn renamed(&self, name: Result<LockName, Error>) -> Self {
        Self { name, ..self.clone() }
    }

    /// The same lock, exclusive, with a lease of at most `longest`, and without `at_least` and
    /// `hold_at_most`.
    pub(super) fn for_a_door(&self, longest: Duration) -> Self {
        let (mode, lease) = (Mode::Exclusive, self.wanted.lease.min(longest));
        Self { wanted: Wanted { mode, lease, at_least: None, hold_at_most: None }, ..self.clone() }
    }

    /// Limits the wait to `limit`, if its own is not shorter.
    pub(super) fn wait_at_most(self, limit: Option<Duration>) -> Self {
        match limit {
            Some(limit) => {
                let wait = self.wait.map_or(limit, |wait| wait.min(limit));
                self.wait(wait)
            }
            None => self,
        }
    }

    /// The name, after a check of all options against the store's guarantees.
    pub(super) fn checked(&self) -> Result<&LockName, Error> {
        let name = self.name()?;
        self.wanted.check(&self.handle.backend.guarantees()).map_err(|error| error.on(name))?;
        Ok(name)
    }

    /// The wait for a quarantine of one acquire.
    pub(super) fn quarantine_wait(&self) -> QuarantineWait {
        QuarantineWait::new(self.quarantine.clone())
    }

    /// Whether an acquire makes one attempt and does not wait.
    pub(super) fn is_single_attempt(&self) -> bool {
        self.wait == Some(Duration::ZERO)
    }
}
