//! The client: all policy that is the same for every store.

mod alarm;
mod call;
mod guard;
mod held;
mod inner;
mod keeper;
mod lock;
mod monitor;
mod options;
mod quarantine;
mod release;
mod renewal;
mod waiting;
mod with;

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

use futures_util::future::{join, join_all, select};

pub use self::{
    guard::Guard,
    lock::{Lock, TryAcquire},
    monitor::Monitor,
    options::ClientOptions,
    with::{Finished, WithError},
};
use self::{
    held::End,
    inner::{Handle, Inner},
};
use crate::{Backend, Env, Error, Guarantees, LockName, LossReason, SystemEnv};

/// A client of one store. Clones share everything; its background work ends with the last of its
/// clones and guards.
#[derive(Clone)]
pub struct LockClient {
    handle: Arc<Handle>,
}

impl LockClient {
    /// A client with the default options.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self::build(backend, Arc::new(SystemEnv), ClientOptions::default())
    }

    /// A client with options of its own, in the real world or a simulated one.
    ///
    /// # Errors
    /// `InvalidInput`, naming the option.
    pub fn with_options(
        backend: Arc<dyn Backend>,
        env: Arc<dyn Env>,
        options: ClientOptions,
    ) -> Result<Self, Error> {
        options.check()?;
        Ok(Self::build(backend, env, options))
    }

    fn build(backend: Arc<dyn Backend>, env: Arc<dyn Env>, options: ClientOptions) -> Self {
        Self { handle: Arc::new(Handle(Arc::new(Inner::new(backend, env, options)))) }
    }

    /// Starts an acquisition. A bad name is reported when it is acquired.
    pub fn lock<N>(&self, name: N) -> Lock
    where
        N: TryInto<LockName>,
        N::Error: Into<Error>,
    {
        Lock::new(Arc::clone(&self.handle), name.try_into().map_err(Into::into))
    }

    /// What the store promises now.
    #[must_use]
    pub fn guarantees(&self) -> Arc<Guarantees> {
        self.handle.backend.guarantees()
    }

    /// The store itself, for what operators ask of it.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.handle.backend
    }

    /// Refuses new work, turns waiters away, waits for calls in flight (bounded by the call
    /// time-out), releases everything held, waits for all releases (bounded likewise), and ends the store's
    /// background work.
    ///
    /// Guards that are still alive are lost, with the reason `Closed`. *Cancel safety*: what was begun
    /// goes on in the background.
    pub async fn close(&self) {
        let inner = &self.handle.0;
        inner.closing.store(true, Ordering::SeqCst);
        inner.waiting.refuse_all(&inner::closed());
        let limit = inner.options.call_timeout;
        inner.landed(limit).await;
        let releases = inner.keeper.close().into_iter().filter_map(|held| {
            let in_flight = Inner::count(&**inner);
            let ours = held.finish(End::Lost(LossReason::Closed));
            ours.then(|| {
                let work = release::release(Arc::clone(inner), held, inner.env.now());
                let call = call::Call::new(inner, work, release::after_release).within(limit);
                async move {
                    let _in_flight = in_flight;
                    call.await
                }
            })
        });
        // Others have given up what the keeper had no more: guards just before, another `close`, or a loss.
        join(join_all(releases), inner.landed(limit)).await;
        // A pool waits for connections that hang with their calls.
        select(inner.backend.close(), inner.env.sleep(limit)).await;
    }
}

impl fmt::Debug for LockClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.0.fmt(f)
    }
}
