//! A client, its locks and its guards.

use std::{sync::Arc, time::Duration};

use lock_core::{
    ClientOptions, DetachedLock, Error, ErrorKind, FencingToken, LastRun, LockClient, LockName,
    OwnerId, RecordRead, TryAcquire,
};
use tokio::runtime::{Builder, Handle, Runtime};

use super::once::Once;
use crate::StoreUrl;

/// Connects to the store at `url`, as [`crate::connect()`].
///
/// # Errors
/// As [`crate::connect()`]; `Config` in an async task, or if no thread can be started.
pub fn connect<U>(url: U) -> Result<Client, Error>
where
    U: TryInto<StoreUrl>,
    U::Error: Into<Error>,
{
    connect_with(url, ClientOptions::default())
}

/// Connects to the store at `url` with these options, as [`crate::connect_with`].
///
/// # Errors
/// As [`connect`]; `InvalidInput` for an invalid option.
pub fn connect_with<U>(url: U, options: ClientOptions) -> Result<Client, Error>
where
    U: TryInto<StoreUrl>,
    U::Error: Into<Error>,
{
    let url = url.try_into().map_err(Into::into)?;
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| {
        Error::new(ErrorKind::Config, "the runtime cannot be started").with_source(error)
    })?;
    let runtime = Shared(Arc::new(Own(Some(runtime))));
    let client = runtime.wait(crate::connect_with(url, options))??;
    Ok(Client { client, runtime })
}

/// A client of one store. Clones share everything.
#[derive(Clone, Debug)]
pub struct Client {
    client: LockClient,
    runtime: Shared,
}

impl Client {
    /// The lock with this name. An invalid name is an error of [`Lock::acquire`].
    pub fn lock<N>(&self, name: N) -> Lock
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        Lock { lock: self.client.lock(name), runtime: self.runtime.clone() }
    }

    /// Reads the record of a name, as [`LockClient::read_record`].
    ///
    /// # Errors
    /// As [`LockClient::read_record`]; `Config` in an async task.
    pub fn read_record<N>(&self, name: N) -> Result<RecordRead, Error>
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        self.runtime.wait(self.client.read_record(name))?
    }

    /// The last run of a job that runs once per period, as [`LockClient::last_run`].
    ///
    /// # Errors
    /// As [`LockClient::last_run`]; `Config` in an async task.
    pub fn last_run<N>(&self, name: N) -> Result<Option<LastRun>, Error>
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        self.runtime.wait(self.client.last_run(name))?
    }

    /// Takes a detached lock over, as [`LockClient::attach`].
    ///
    /// # Errors
    /// As [`LockClient::attach`]; `Config` in an async task.
    pub fn attach(&self, lock: &DetachedLock) -> Result<Guard, Error> {
        let guard = self.runtime.wait(self.client.attach(lock))??;
        Ok(Guard { guard: Some(guard), runtime: self.runtime.clone() })
    }

    /// The async client, whose calls need a runtime of yours.
    #[must_use]
    pub fn client(&self) -> &LockClient {
        &self.client
    }

    /// Releases all locks, as [`LockClient::close`].
    ///
    /// # Errors
    /// `Config` in an async task.
    pub fn close(&self) -> Result<(), Error> {
        self.runtime.wait(self.client.close())
    }
}

/// A lock and its options, as [`crate::Lock`].
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `acquire`, `try_acquire` or `with`"]
pub struct Lock {
    lock: crate::Lock,
    runtime: Shared,
}

impl Lock {
    /// Sets the lease, as [`crate::Lock::lease`].
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lock = self.lock.lease(lease);
        self
    }

    /// Sets how long to wait, as [`crate::Lock::wait`].
    pub fn wait(mut self, wait: Duration) -> Self {
        self.lock = self.lock.wait(wait);
        self
    }

    /// Sets the minimum hold, as [`crate::Lock::at_least`].
    pub fn at_least(mut self, at_least: Duration) -> Self {
        self.lock = self.lock.at_least(at_least);
        self
    }

    /// Sets the maximum hold, as [`crate::Lock::hold_at_most`].
    pub fn hold_at_most(mut self, hold_at_most: Duration) -> Self {
        self.lock = self.lock.hold_at_most(hold_at_most);
        self
    }

    /// Shares the lock with other readers, as [`crate::Lock::shared`].
    pub fn shared(mut self) -> Self {
        self.lock = self.lock.shared();
        self
    }

    /// Acquires the lock, as [`crate::Lock::acquire`].
    ///
    /// # Errors
    /// As [`crate::Lock::acquire`]; `Config` in an async task.
    pub fn acquire(self) -> Result<Guard, Error> {
        let guard = self.runtime.wait(self.lock.acquire())??;
        Ok(Guard { guard: Some(guard), runtime: self.runtime })
    }

    /// Makes one attempt, as [`crate::Lock::try_acquire`]. `None` if the lock is busy, or the store
    /// grants nothing for now.
    ///
    /// # Errors
    /// As [`crate::Lock::try_acquire`]; `Config` in an async task.
    pub fn try_acquire(self) -> Result<Option<Guard>, Error> {
        let guard = self.runtime.wait(self.lock.try_acquire())?.map(TryAcquire::guard)?;
        Ok(guard.map(|guard| Guard { guard: Some(guard), runtime: self.runtime }))
    }

    /// Runs a job at most once per period, as [`crate::Lock::once_per`].
    pub fn once_per(self, period: Duration) -> Once {
        Once::new(self.lock.once_per(period), self.runtime)
    }

    /// Acquires the lock, does the work, and releases the lock.
    ///
    /// The work is not stopped if the lock is lost: work that takes long asks
    /// [`Guard::is_valid`] between its steps.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` or `NotHeld` if the lock was lost before the work
    /// ended, so that a part of it may have run without the lock. After another failure of the
    /// release, the lock is free when its lease ends, and the output is returned.
    pub fn with<T>(self, work: impl FnOnce(&Guard) -> T) -> Result<T, Error> {
        let guard = self.acquire()?;
        let output = work(&guard);
        match guard.release() {
            Err(error) if error.is_lost() || error.kind() == ErrorKind::NotHeld => Err(error),
            _ => Ok(output),
        }
    }
}

/// A held lock, which the client's thread renews.
///
/// Dropping it releases the lock, and waits for the store, for at most the client's `call_timeout`.
/// In an async task, and when the thread panics, the release goes on in the background.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    /// There until it is released.
    guard: Option<crate::Guard>,
    runtime: Shared,
}

impl Guard {
    /// The fencing token. Send it to the resource that the lock protects.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.guard.as_ref().map_or(FencingToken::ZERO, crate::Guard::token)
    }

    /// The owner id of this acquire.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.guard.as_ref().map_or(OwnerId::READERS, crate::Guard::owner)
    }

    /// Whether the holder may still rely on the lock.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.guard.as_ref().is_some_and(crate::Guard::is_valid)
    }

    /// How long the holder may still rely on the lock if no renewal is confirmed.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guard.as_ref().map_or(Duration::ZERO, crate::Guard::remaining)
    }

    /// Writes the record of this lock's name, as [`crate::Guard::write_record`].
    ///
    /// # Errors
    /// As [`crate::Guard::write_record`]; `Config` in an async task.
    pub fn write_record(&self, value: impl Into<Vec<u8>>, keep_for: Duration) -> Result<(), Error> {
        match &self.guard {
            Some(guard) => self.runtime.wait(guard.write_record(value, keep_for))?,
            None => Ok(()),
        }
    }

    /// Ends this guard without a release, as [`crate::Guard::detach`].
    ///
    /// # Errors
    /// As [`crate::Guard::detach`]; `Config` in an async task.
    pub fn detach(mut self) -> Result<DetachedLock, Error> {
        let ended = || Error::new(ErrorKind::Lost, "the guard has ended");
        let guard = self.guard.take().ok_or_else(ended)?;
        self.runtime.wait(guard.detach())?
    }

    /// Releases the lock, as [`crate::Guard::release`].
    ///
    /// # Errors
    /// As [`crate::Guard::release`].
    pub fn release(mut self) -> Result<(), Error> {
        match self.guard.take() {
            Some(guard) => self.runtime.wait(guard.release())?,
            None => Ok(()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Dropping the guard itself releases in the background.
        let Some(guard) = self.guard.take().filter(|_| !std::thread::panicking()) else { return };
        if let Ok(Err(error)) = self.runtime.wait(guard.release()) {
            tracing::warn!(target: "leasehold", %error, "a lock was not released");
        }
    }
}

/// The runtime of a client, its locks and its guards.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<Own>);

#[derive(Debug)]
pub(super) struct Own(Option<Runtime>);

impl Shared {
    /// Waits for a call, which needs no other thread of the caller's.
    pub(super) fn wait<T>(&self, call: impl Future<Output = T>) -> Result<T, Error> {
        match &self.0.0 {
            Some(runtime) if Handle::try_current().is_err() => Ok(runtime.block_on(call)),
            _ => Err(Error::new(
                ErrorKind::Config,
                "a blocking call was made in an async task; use the async functions of leasehold there",
            )),
        }
    }
}

impl Drop for Own {
    /// Waits for nothing: an async task may drop the last client.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
