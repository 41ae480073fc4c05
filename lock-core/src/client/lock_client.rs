//! The client of one store.

use std::{fmt, sync::Arc};

use futures_util::future::{join, join_all, select};

#[cfg(feature = "testing")]
use super::calls::lose;
use super::{
    calls::{Call, after_release, release},
    renewal::make_renewer,
    state::{ClientOptions, ClientState, Handle, closed},
};
use crate::{Backend, Env, Error, ErrorKind, Guarantees, LossReason, Observer, SystemEnv};

/// A client of one store. Clones share everything.
///
/// Create one client per store when the program starts, and clone it. Its background work ends with
/// the last of its clones and guards. Several runtimes may use it. If a runtime ends, the
/// background work goes on at another runtime that uses the client, and a lock that was acquired
/// there is kept.
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

    /// A client with these options.
    ///
    /// # Errors
    /// `InvalidInput` as [`ClientOptions::check`], naming the option.
    pub fn with_options(backend: Arc<dyn Backend>, options: ClientOptions) -> Result<Self, Error> {
        Self::with_env(backend, Arc::new(SystemEnv), options)
    }

    /// A client with its own source of clock, randomness and tasks, for simulations and tests.
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

    #[cfg(feature = "testing")]
    pub(crate) fn downgrade(&self) -> WeakClient {
        WeakClient(Arc::downgrade(&self.handle))
    }

    /// A client with options that were checked.
    pub(crate) fn build(
        backend: Arc<dyn Backend>,
        env: Arc<dyn Env>,
        options: ClientOptions,
    ) -> Self {
        Self {
            handle: Arc::new(Handle(Arc::new(ClientState::new(
                backend,
                env,
                options,
                make_renewer,
            )))),
        }
    }

    /// Sends the events of this client and its clones to `observer`.
    ///
    /// Call this before the client is used: of a lock that is already held, the observer receives
    /// only the later events. One observer may serve several clients;
    /// [`Event::store`](crate::Event::store) and the label distinguish them.
    ///
    /// # Errors
    /// `Config` if this client, or a clone of it, already has an observer.
    pub fn observed_by(self, observer: Arc<dyn Observer>) -> Result<Self, Error> {
        if self.handle.observe(observer) {
            return Ok(self);
        }
        Err(Error::new(ErrorKind::Config, "the client already has an observer"))
    }

    /// What the store promises with its present settings.
    #[must_use]
    pub fn guarantees(&self) -> Arc<Guarantees> {
        self.handle.backend.guarantees()
    }

    /// The store.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.handle.backend
    }

    /// Releases all locks of this client, and ends the store's background work.
    ///
    /// # Guarantees
    ///
    /// It refuses new calls, ends all waits with an error, waits for the calls in flight, and
    /// releases all locks. Guards that still exist are lost with the reason `Closed`. Then it
    /// closes the store.
    ///
    /// # Durations
    ///
    /// Each of the three waits (for calls, for releases, for the store) ends after the client's
    /// `call_timeout`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the steps that have begun go on in the background.
    pub async fn close(&self) {
        let state = &self.handle.0;
        state.start_closing();
        state.refuse_waiters(&closed());
        let limit = state.options.call_timeout;
        state.drained(limit).await;
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
        // Locks that had already left the renewer are released by others: by their guards, another
        // `close`, or a loss.
        join(join_all(releases), state.drained(limit)).await;
        // A connection pool waits for connections whose calls hang.
        select(state.backend.close(), state.env.sleep(limit)).await;
    }
}

/// A reference to a client that does not keep it alive.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub(crate) struct WeakClient(std::sync::Weak<Handle>);

#[cfg(feature = "testing")]
impl WeakClient {
    /// Ends this owner's lock, as a renewal that the store answers with `Lost`.
    pub(crate) fn lose(&self, name: &crate::LockName, owner: crate::OwnerId, reason: LossReason) {
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
