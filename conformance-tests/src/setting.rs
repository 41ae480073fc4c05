//! What a running case uses: connections, clients, names and requests.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use lock_core::{
    Attempt, Backend, Busy, Enqueued, Env as _, Grant, Guarantees, LockClient, LockName, OwnerId,
    OwnerLabel, Renewal, Request, Signal, SystemEnv, Waiter,
};

use crate::{
    composition::Composition,
    harness::{Harness, Store},
    observed::{Observed, Waits},
    record_faults::RecordFaults,
};

/// A case's view of a store.
#[derive(Clone)]
pub struct Setting {
    harness: Arc<dyn Harness>,
    address: Arc<str>,
    case: &'static str,
    promised: Arc<Guarantees>,
    pub(crate) composition: Composition,
}

impl Setting {
    /// What the case of this name is given.
    pub fn new(
        harness: Arc<dyn Harness>,
        address: &str,
        case: &'static str,
        promised: Arc<Guarantees>,
    ) -> Self {
        let composition = Composition::Sound;
        Self { harness, address: address.into(), case, promised, composition }
    }

    /// Composes several locks with a flaw, for tests of the suite.
    #[must_use]
    pub fn with_composition(self, composition: Composition) -> Self {
        Self { composition, ..self }
    }

    /// The harness of the store.
    pub fn harness(&self) -> &Arc<dyn Harness> {
        &self.harness
    }

    /// The address of the store.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What the store promised before the case began.
    pub fn promised(&self) -> &Guarantees {
        &self.promised
    }

    /// Starts a store that no other case uses. It runs as long as the second value lives.
    pub(crate) async fn over_a_fresh_store(&self) -> (Self, Option<Store>) {
        let store = self.harness.start().await.expect("a second store");
        (Self { address: store.address.as_str().into(), ..self.clone() }, Some(store))
    }

    /// A new connection.
    pub async fn connect(&self) -> Arc<dyn Backend> {
        self.harness.connect(&self.address).await.expect("a connection to the store")
    }

    /// A client with a new connection, as another process would have.
    pub async fn client(&self) -> LockClient {
        LockClient::new(self.connect().await)
    }

    /// A client, and counts of what its connection does.
    pub(crate) async fn observed_client(&self) -> (LockClient, Waits) {
        let (backend, waits) = Observed::over(self.connect().await);
        (LockClient::new(backend), waits)
    }

    /// A client whose records have faults.
    pub(crate) async fn client_with_record_faults(&self) -> (LockClient, Arc<RecordFaults>) {
        let (backend, faults) = Observed::with_record_faults(self.connect().await);
        (LockClient::new(backend), faults)
    }

    /// A name that no other case uses.
    pub fn name(&self, part: &str) -> LockName {
        LockName::new(format!("{}: {part}", self.case)).expect("a short name")
    }

    /// The shortest lease for this store; see [`Harness::lease`].
    pub fn lease(&self) -> Duration {
        self.harness.lease()
    }

    /// The lease of a child that is killed or paused. Until then the child renews it, also on a
    /// busy machine.
    pub(crate) fn child_lease(&self) -> Duration {
        let lease = (self.lease() * 2).max(Duration::from_millis(2_500));
        lease.min(self.long_lease())
    }

    /// Longer than any case takes.
    pub fn long_lease(&self) -> Duration {
        self.promised.longest_lease
    }

    /// How long the lock of a dead holder may stay held, with 10 s more for a busy machine.
    pub fn patience(&self) -> Duration {
        self.lease()
            + self.promised.expiry_slack
            + self.promised.longest_poll
            + Duration::from_secs(10)
    }

    /// What the killed process held with this lease must be free by now, long before the longest
    /// lease is over. Allows a third of that for a busy machine.
    pub(crate) fn assert_free_in_time(&self, killed: Instant, lease: Duration) {
        let (took, promised) = (killed.elapsed(), &self.promised);
        let slack = promised.lease_step + promised.expiry_slack + promised.longest_poll;
        let bound = lease + slack + self.long_lease() / 3;
        assert!(
            took <= bound,
            "what the killed process held was free after {took:?}, not within {bound:?}"
        );
    }

    /// A request of a new owner, with the long lease.
    pub fn request(&self, name: &LockName) -> Request {
        let owner = OwnerId::from_bits(SystemEnv.random());
        let label = OwnerLabel::new(self.case).expect("a short label");
        Request::new(name.clone(), owner, label, self.long_lease(), SystemEnv.now())
    }

    /// The same with the short lease.
    pub fn short_request(&self, name: &LockName) -> Request {
        let mut request = self.request(name);
        request.lease = self.lease();
        request
    }
}

/// Makes an attempt. On a busy machine a store may not answer in time, so it is repeated until the
/// store has answered.
pub(crate) async fn attempt(backend: &dyn Backend, request: &Request) -> Attempt {
    loop {
        match backend.try_acquire(request).await {
            Err(error) if error.is_retryable() => pause().await,
            answer => return answer.expect("an answer"),
        }
    }
}

/// Renews, and repeats the call while an answer is `Unknown`.
pub(crate) async fn renew(backend: &dyn Backend, grants: &[&Grant]) -> Vec<Renewal> {
    loop {
        let answers = backend.renew(grants, SystemEnv.now()).await;
        if !answers.iter().any(|answer| matches!(answer, Renewal::Unknown(_))) {
            return answers;
        }
        pause().await;
    }
}

/// So that other tasks run, also if the store refuses at once.
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// Makes an attempt that the store must grant.
pub(crate) async fn granted(backend: &dyn Backend, request: &Request) -> Grant {
    match attempt(backend, request).await {
        Attempt::Granted(grant) => grant,
        other => panic!(
            "{} is free, so the attempt must be granted; the store answered {other:?}",
            request.name
        ),
    }
}

/// Makes an attempt that must be refused as `Busy`.
pub(crate) async fn refused(backend: &dyn Backend, request: &Request) -> Busy {
    match attempt(backend, request).await {
        Attempt::Busy(busy) => busy,
        other => panic!("{} must not be granted now; the store answered {other:?}", request.name),
    }
}

/// Enqueues a request that must not be granted at once.
pub(crate) async fn enqueued(backend: &dyn Backend, request: &Request) -> (Box<dyn Waiter>, Busy) {
    match backend.enqueue(request).await.expect("an answer") {
        Enqueued::Waiting(entry, busy) => (entry, busy),
        other => panic!("{} must not be granted now; `enqueue` answered {other:?}", request.name),
    }
}

/// Waits in a queue entry as the core does, by push and by polling, but without its retry policies.
pub(crate) async fn served(
    backend: &dyn Backend,
    request: &Request,
    entry: &mut dyn Waiter,
    busy: Busy,
) -> Grant {
    confirmed(backend, signalled(backend, request, entry, busy).await).await
}

/// The same, but no renewal confirms a pushed grant.
pub(crate) async fn signalled(
    backend: &dyn Backend,
    request: &Request,
    entry: &mut dyn Waiter,
    mut busy: Busy,
) -> Grant {
    loop {
        let signal = tokio::select! {
            signal = entry.next() => signal,
            () = tokio::time::sleep(busy.retry_after) => Signal::Recheck,
        };
        match signal {
            Signal::Granted(grant) if grant.token > busy.token => return grant,
            Signal::Lost(why) => panic!("the store lost the queue entry: {why}"),
            _ => {}
        }
        let mut again = request.clone();
        again.sent = SystemEnv.now();
        match attempt(backend, &again).await {
            Attempt::Granted(grant) => return grant,
            Attempt::Busy(next) => busy = next,
            Attempt::Quarantined(quarantined) => panic!("{quarantined:?}"),
        }
    }
}

/// Claims a pushed grant by a renewal.
pub(crate) async fn confirmed(backend: &dyn Backend, grant: Grant) -> Grant {
    if grant.claim.is_some() {
        let answer = renew(backend, &[&grant]).await.pop();
        assert!(
            matches!(answer, Some(lock_core::Renewal::Renewed { .. })),
            "the first renewal must claim a pushed grant; the store answered {answer:?}"
        );
    }
    grant
}

/// Repeats `ask` until it returns something; panics after `limit`.
pub(crate) async fn eventually<T, Fut>(what: &str, limit: Duration, ask: impl Fn() -> Fut) -> T
where
    Fut: Future<Output = Option<T>>,
{
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    match tokio::time::timeout(limit, asking).await {
        Ok(answer) => answer,
        Err(_) => panic!("waited {limit:?} for this, which did not happen: {what}"),
    }
}
