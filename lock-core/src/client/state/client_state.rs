//! The parts of one client, and the count of its calls in flight.

use std::{
    borrow::Borrow,
    fmt,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, future::select};
use tokio::sync::Notify;

use super::{
    held::Held,
    local_queues::LocalQueues,
    options::{ClientOptions, Wanted},
    renewer_queue::RenewerQueue,
};
use crate::{
    Backend, Env, Error, ErrorKind, Instant, LockName, Mode, Observer, OncePer, OwnerId, Request,
    env::BoxFuture,
};

/// Makes the task that renews held locks and finishes calls whose callers have gone.
pub(crate) type MakeRenewer = fn(Arc<ClientState>) -> BoxFuture;

pub(crate) struct ClientState {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) options: ClientOptions,
    pub(crate) renewer: RenewerQueue,
    queues: LocalQueues,
    /// The queues of readers: for each name, the readers and the writers of this process have one
    /// entry each in the store.
    reader_queues: LocalQueues,
    pub(super) observer: OnceLock<Arc<dyn Observer>>,
    /// Limits the lines about a quarantine of the store.
    pub(super) quarantine_line: OncePer,
    /// A function pointer, because this folder does not import the tasks.
    make_renewer: MakeRenewer,
    /// `close` writes this and then reads `in_flight`. A call writes `in_flight` and then reads
    /// this. All four accesses are sequentially consistent, so at least one of the two sees the
    /// other.
    closing: AtomicBool,
    in_flight: AtomicUsize,
    drained: Notify,
}

/// What clients and guards hold: when the last of them is gone, the renewer ends.
pub(crate) struct Handle(pub(crate) Arc<ClientState>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.renewer.stop();
    }
}

impl std::ops::Deref for Handle {
    type Target = Arc<ClientState>;

    fn deref(&self) -> &Arc<ClientState> {
        &self.0
    }
}

/// A call that `close` waits for.
pub(crate) struct InFlight<S: Borrow<ClientState>>(S);

impl<S: Borrow<ClientState>> Drop for InFlight<S> {
    fn drop(&mut self) {
        let state = self.0.borrow();
        if state.in_flight.fetch_sub(1, Ordering::SeqCst) == 1
            && state.closing.load(Ordering::SeqCst)
        {
            state.drained.notify_waiters();
        }
    }
}

impl ClientState {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        env: Arc<dyn Env>,
        options: ClientOptions,
        make_renewer: MakeRenewer,
    ) -> Self {
        Self {
            backend,
            env,
            options,
            renewer: RenewerQueue::default(),
            queues: LocalQueues::default(),
            reader_queues: LocalQueues::default(),
            observer: OnceLock::new(),
            quarantine_line: OncePer::minute(),
            make_renewer,
            closing: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            drained: Notify::new(),
        }
    }

    /// Counts a call. Code that removes a lock from the renewer to release it counts itself first,
    /// so that `close` finds the lock either in the renewer or among the calls in flight.
    pub(crate) fn count<S: Borrow<Self>>(state: S) -> InFlight<S> {
        state.borrow().in_flight.fetch_add(1, Ordering::SeqCst);
        InFlight(state)
    }

    /// Counts a call, or refuses it if the client is closed.
    pub(crate) fn begin<S: Borrow<Self>>(state: S) -> Result<InFlight<S>, Error> {
        let call = Self::count(state);
        call.0.borrow().check_open()?;
        Ok(call)
    }

    /// Refuses all calls from now on.
    pub(crate) fn start_closing(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// An error if the client is closed.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.closing.load(Ordering::SeqCst) { Err(closed()) } else { Ok(()) }
    }

    /// Waits until no call is in flight, for at most `limit`.
    pub(crate) async fn drained(&self, limit: Duration) {
        let drained = pin!(async {
            loop {
                let mut drained = pin!(self.drained.notified());
                drained.as_mut().enable();
                if self.in_flight.load(Ordering::SeqCst) == 0 {
                    return;
                }
                drained.await;
            }
        });
        select(drained, self.env.sleep(limit)).await;
    }

    /// Sets the observer; `false` if there already is one.
    pub(crate) fn observe(&self, observer: Arc<dyn Observer>) -> bool {
        self.observer.set(observer).is_ok()
    }

    /// A request with a new owner.
    pub(crate) fn request(&self, name: &LockName, wanted: &Wanted) -> Request {
        let owner = OwnerId::from_bits(self.env.random());
        let label = self.options.label.clone();
        Request::new(name.clone(), owner, label, wanted.lease, self.env.now())
            .with_mode(wanted.mode)
    }

    /// The local queues for locks of this mode.
    pub(crate) fn queues(&self, mode: Mode) -> &LocalQueues {
        match mode {
            Mode::Exclusive => &self.queues,
            Mode::Shared => &self.reader_queues,
        }
    }

    /// Ends all local waits with `error`.
    pub(crate) fn refuse_waiters(&self, error: &Error) {
        self.queues.refuse_all(error);
        self.reader_queues.refuse_all(error);
    }

    /// Registers a new lock for renewal; `false` if the client is closed.
    pub(crate) fn register_held(self: &Arc<Self>, held: &Arc<Held>, at: Instant) -> bool {
        let start = self.renewer.register(held, at);
        if start == Some(true) {
            self.start_renewer();
        }
        start.is_some()
    }

    /// Moves a call whose caller has gone to the renewer, which finishes it; `close` waits for it.
    /// If there is no runtime, the call is dropped, and what it left in the store ends with its
    /// lease. So it does if the call panics, as a timer does whose runtime has ended.
    pub(crate) fn detach(self: &Arc<Self>, call: BoxFuture) {
        let in_flight = Self::count(Arc::clone(self));
        let counted = Box::pin(async move {
            let _in_flight = in_flight;
            if AssertUnwindSafe(call).catch_unwind().await.is_err() {
                tracing::warn!(
                    target: "leasehold",
                    "a call whose caller has gone panicked; what it left in the store ends with its lease"
                );
            }
        });
        if self.renewer.detach(counted) {
            self.start_renewer();
        }
    }

    fn start_renewer(self: &Arc<Self>) {
        // If there is no runtime, the task is dropped at once, and its drop moves it or marks all
        // held locks as lost.
        let _ = self.env.spawn((self.make_renewer)(Arc::clone(self)));
    }
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Config, "the client is closed")
}

impl fmt::Debug for ClientState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("backend", &self.backend).finish_non_exhaustive()
    }
}
