//! One client on two runtimes, of which the first ends: a client in a static, which each test of a
//! program uses on a runtime of its own.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    thread,
    time::Duration,
};

use futures_util::poll;
use lock_core::{
    Attempt, Backend, Busy, Enqueued, Env as _, Error, Event, EventKind, Grant, Instant, LockName,
    LossReason, ReleaseOptions, ReleaseOutcome, Request, Signal, SystemEnv, Waiter,
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

use super::{cases, pushes};
use crate::setting::{Setting, granted, renew};

cases! {
    "L5" locks_are_renewed_after_the_first_runtime_has_ended;
    "L2" waiters_are_served_after_the_first_runtime_has_ended;
    "L2" waiters_are_pushed_after_the_first_runtime_has_ended pushes;
}

/// Long enough that a renewal in time needs no quick machine.
const LEASE: Duration = Duration::from_secs(10);

/// Runs a case on a thread of its own, because a runtime can neither run nor end inside another
/// one.
async fn on_two_runtimes(
    setting: &Setting,
    case: impl FnOnce(&Setting, Runtime, Runtime) + Send + 'static,
) {
    let (tell, ended) = oneshot::channel();
    let runtime = || Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let setting = setting.clone();
    thread::spawn(move || {
        let ran = catch_unwind(AssertUnwindSafe(|| case(&setting, runtime(), runtime())));
        tell.send(ran)
    });
    if let Err(panic) = ended.await.expect("the case ends") {
        resume_unwind(panic);
    }
}

/// When the client sent the renewal of a lock that the store has confirmed, or why the lock is
/// lost.
type Renewed = (LockName, Result<Instant, LossReason>);

async fn locks_are_renewed_after_the_first_runtime_has_ended(setting: &Setting) {
    on_two_runtimes(setting, |setting, first, second| {
        let lease = LEASE.min(setting.long_lease());
        let (tell, mut told) = mpsc::unbounded_channel::<Renewed>();
        let observer = move |event: &Event<'_>| {
            let renewed = match event.kind {
                EventKind::Renewed { took, .. } => Ok(SystemEnv.now() - took),
                EventKind::Lost { reason, .. } => Err(reason),
                _ => return,
            };
            let _ = tell.send((event.name.clone(), renewed));
        };
        let client = first.block_on(setting.client()).observed_by(Arc::new(observer)).unwrap();
        let lock = |name| client.lock(name).lease(lease).acquire();
        let names = ["moved", "held", "next"].map(|part| setting.name(part));
        // Its holder leaves the runtime. The renewal starts what a backend starts for renewals.
        let moved = first.block_on(async {
            let moved = lock(&names[0]).await.unwrap();
            renew(&**client.backend(), &[moved.grant()]).await;
            moved
        });
        let mut guards = vec![moved, second.block_on(lock(&names[1])).unwrap()];
        drop(first);
        let ended = SystemEnv.now();
        second.block_on(async {
            guards.push(lock(&names[2]).await.unwrap());
            let mut renewed = HashSet::new();
            while renewed.len() < names.len() {
                let (name, sent) = told.recv().await.expect("the client lives");
                let sent = sent.unwrap_or_else(|why| panic!("{name} was lost: {why}"));
                if sent > ended {
                    renewed.insert(name);
                }
            }
            for guard in guards {
                guard.release().await.unwrap();
            }
        });
    })
    .await;
}

async fn waiters_are_served_after_the_first_runtime_has_ended(setting: &Setting) {
    on_two_runtimes(setting, |setting, first, second| {
        let (client, mut waits) = first.block_on(setting.observed_client());
        let other = second.block_on(setting.client());
        let name = setting.name("job");
        let guard = second.block_on(other.lock(&name).acquire()).unwrap();
        // Both tasks share the queue entry of the first.
        let lock = client.lock(&name).lease(setting.lease());
        drop(first.spawn(lock.clone().acquire()));
        second.block_on(waits.reach(1));
        let mut waits_on = Box::pin(lock.acquire());
        assert!(second.block_on(async { poll!(&mut waits_on) }).is_pending());
        drop(first);
        second.block_on(async {
            guard.release().await.unwrap();
            let served = waits_on.await.expect("the other runtime's waiter is served");
            // On a busy machine the short lease may be over.
            let released = served.release().await;
            assert!(released.is_ok() || released.is_err_and(|error| error.is_lost()));
        });
    })
    .await;
}

async fn waiters_are_pushed_after_the_first_runtime_has_ended(setting: &Setting) {
    on_two_runtimes(setting, |setting, first, second| {
        let push = async |backend: &dyn Backend, part| {
            let other = setting.connect().await;
            pushed(setting, backend, &other, part).await;
        };
        let backend = first.block_on(setting.connect());
        first.block_on(push(&*backend, "before"));
        drop(first);
        second.block_on(push(&*backend, "after"));
    })
    .await;
}

/// A waiter that does not poll any more is served by `backend` when `other` has released the lock.
async fn pushed(setting: &Setting, backend: &dyn Backend, other: &Arc<dyn Backend>, part: &str) {
    let name = setting.name(part);
    // A migration's record may be lost with the first runtime, and is then waited out. From here
    // on, no call is refused for this reason.
    let early = setting.request(&setting.name(&format!("{part}, at first")));
    let taken = answered(|| backend.try_acquire(&early)).await;
    assert!(matches!(taken, Attempt::Granted(_)), "nobody else uses this name: {taken:?}");
    let (mut waiter, request, busy) = loop {
        match released_while_waiting(setting, backend, other, &name).await {
            Ok(waiting) => break waiting,
            // No push is needed any more.
            Err(grant) => {
                answered(|| backend.release(&grant, ReleaseOptions::default())).await;
            }
        }
    };
    let served = async {
        loop {
            match waiter.next().await {
                Signal::Granted(grant) if grant.token > busy.token => return grant,
                Signal::Granted(_) => {}
                Signal::Lost(why) => panic!("the store lost the queue entry: {why}"),
                Signal::Recheck => match answered(|| backend.try_acquire(&request)).await {
                    Attempt::Granted(grant) => return grant,
                    Attempt::Busy(_) => {}
                    Attempt::Quarantined(quarantined) => panic!("{quarantined:?}"),
                },
            }
        }
    };
    let hang = setting.patience() + setting.long_lease();
    let Ok(grant) = timeout(hang, served).await else {
        panic!("{part} the end of the first runtime: no push within {hang:?}")
    };
    drop(waiter);
    let released = answered(|| backend.release(&grant, ReleaseOptions::default())).await;
    assert_eq!(released.outcome, ReleaseOutcome::Released);
}

/// A waiter, which polls as the core does until `other` has released the lock: on a busy machine
/// this may take so long that the store would otherwise pass over its queue entry. Or the grant to
/// such a poll.
async fn released_while_waiting(
    setting: &Setting,
    backend: &dyn Backend,
    other: &Arc<dyn Backend>,
    name: &LockName,
) -> Result<(Box<dyn Waiter>, Request, Busy), Grant> {
    let held = granted(&**other, &setting.request(name)).await;
    let mut request = setting.request(name);
    let (waiter, mut busy) = match answered(|| backend.enqueue(&request)).await {
        Enqueued::Waiting(waiter, busy) => (waiter, busy),
        granted => panic!("{name} must not be granted now; `enqueue` answered {granted:?}"),
    };
    let other = Arc::clone(other);
    let release = async move { other.release(&held, ReleaseOptions::default()).await.unwrap() };
    let mut release = tokio::spawn(release);
    loop {
        tokio::select! {
            released = &mut release => {
                released.unwrap();
                return Ok((waiter, request, busy));
            }
            () = sleep(busy.retry_after) => {
                request.sent = SystemEnv.now();
                match answered(|| backend.try_acquire(&request)).await {
                    Attempt::Granted(grant) => {
                        release.await.unwrap();
                        return Err(grant);
                    }
                    Attempt::Busy(next) => busy = next,
                    Attempt::Quarantined(quarantined) => panic!("{quarantined:?}"),
                }
            }
        }
    }
}

/// Repeats a call until it has an answer, as the core does.
async fn answered<T, F>(call: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        match call().await {
            Err(error) if error.is_retryable() => sleep(Duration::from_millis(10)).await,
            answer => return answer.expect("an answer"),
        }
    }
}
