//! A client of one store.

use std::{fmt, sync::Arc};

use futures_util::future::{join, join_all, select};

#[cfg(feature = "testing")]
use super::calls::lose;
use super::{
    calls::{Call, after_release, release},
    lock::Lock,
    renewal::make_renewer,
    state::{ClientOptions, ClientState, Handle, closed},
};
use crate::{
    Backend, Env, Error, ErrorKind, Guarantees, LockName, LossReason, Observer, SystemEnv,
};

/// A client of one store. Clones share everything.
///
/// Keep one client per store, and clone it. Its background work ends with the last of its clones and guards.
#[derive(Clone)]
pub struct LockClient {
    pub(super) handle: Arc<Handle>,
}

impl LockClient {
    /// A client with the default options.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self::build(backend, Arc::new(SystemEnv), ClientOptions::default())
    }

    /// A client with options of its own.
    ///
    /// # Errors
    /// `InvalidInput`, naming the option, as [`ClientOptions::check`].
    pub fn with_options(backend: Arc<dyn Backend>, options: ClientOptions) -> Result<Self, Error> {
        Self::with_env(backend, Arc::new(SystemEnv), options)
    }

    /// A client with another clock, randomness and tasks than the real ones, such as in a simulation.
    ///
    /// # Errors
    /// As [`with_options`](Self::with_options).
    pub fn with_env(
        backend: Arc<dyn Backend>,
        env: Arc<dyn Env>,
        options: ClientOptions,
    ) -> Result<Self, Error> {
        options.check()?;
        Ok(Self::build(backend, env, options))
    }

    /// A client of a store for tests, which has checked the options.
    #[cfg(feature = "testing")]
    pub(crate) fn in_env(
        backend: Arc<dyn Backend>,
        env: Arc<dyn Env>,
        options: ClientOptions,
    ) -> Self {
        Self::build(backend, env, options)
    }

    #[cfg(feature = "testing")]
    pub(crate) fn downgrade(&self) -> WeakClient {
        WeakClient(Arc::downgrade(&self.handle))
    }

    fn build(backend: Arc<dyn Backend>, env: Arc<dyn Env>, options: ClientOptions) -> Self {
        Self {
            handle: Arc::new(Handle(Arc::new(ClientState::new(
                backend,
                env,
                options,
                make_renewer,
            )))),
        }
    }

    /// The same client; `observer` hears its events from now on. Call this before the client is used: of a lock that is
    /// already acquired, `observer` hears only the later events.
    ///
    /// One observer may serve several clients: [`Event::store`](crate::Event::store) tells them apart.
    ///
    /// # Errors
    /// `Config` if this client, or a clone of it, has an observer.
    pub fn observed_by(self, observer: Arc<dyn Observer>) -> Result<Self, Error> {
        if self.handle.observe(observer) {
            return Ok(self);
        }
        Err(Error::new(ErrorKind::Config, "the client has an observer already"))
    }

    /// Starts an acquisition. A bad name is an error of [`Lock::acquire`] and [`Lock::try_acquire`].
    pub fn lock<N>(&self, name: N) -> Lock
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        Lock::new(Arc::clone(&self.handle), name.try_into().map_err(Into::into))
    }

    /// What the store promises in its present configuration.
    #[must_use]
    pub fn guarantees(&self) -> Arc<Guarantees> {
        self.handle.backend.guarantees()
    }

    /// The store itself.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.handle.backend
    }

    /// Releases everything that is held, and ends the store's background work.
    ///
    /// *Guarantees*: it refuses new work, turns waiters away, waits for the calls in flight, releases, and waits for
    /// all releases. Guards that are still alive are lost, with the reason `Closed`.
    ///
    /// *Durations*: each of the three waits ends after the client's `call_timeout`.
    ///
    /// *Cancel safety*: the steps that have begun go on in the background.
    pub async fn close(&self) {
        let state = &self.handle.0;
        state.refuse_calls();
        state.refuse_waiters(&closed());
        let limit = state.options.call_timeout;
        state.landed(limit).await;
        let releases = state.renewer.close().into_iter().filter_map(|held| {
            let in_flight = ClientState::count(&**state);
            let ours = state.end_lost(&held, LossReason::Closed);
            ours.then(|| {
                let work = release(Arc::clone(state), held, state.env.now());
                let call = Call::new(state, work, after_release).within(limit);
                async move {
                    let _in_flight = in_flight;
                    call.await
                }
            })
        });
        // Others have given up what the renewer had no more: guards just before, another `close`, or a loss.
        join(join_all(releases), state.landed(limit)).await;
        // A pool waits for connections that hang with their calls.
        select(state.backend.close(), state.env.sleep(limit)).await;
    }
}

/// A client, for as long as somebody else has it.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub(crate) struct WeakClient(std::sync::Weak<Handle>);

#[cfg(feature = "testing")]
impl WeakClient {
    /// Ends the owner's hold of a name, as a renewal does if the store answers that the lock is lost.
    pub(crate) fn lose(&self, name: &LockName, owner: crate::OwnerId, reason: LossReason) {
        let Some(handle) = self.0.upgrade() else { return };
        let all = handle.renewer.held_of(name).into_iter();
        for held in all.filter(|held| held.grant.owner == owner) {
            lose(&handle, &held, reason);
        }
    }
}

impl fmt::Debug for LockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.0.fmt(f)
    }
}
