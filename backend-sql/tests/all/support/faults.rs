//! Attempts whose answer is lost, or whose first try arrives late, and other faults that a server
//! of any kind may have.

use std::{net::SocketAddr, sync::Arc};

use futures_util::future::{join, join_all};
use lock_core::{Backend, ErrorKind, LockClient, LockName, ReleaseOptions, TryAcquire};
use servers::{Counters, KitError, Mode, Proxy, wait::until};
use sqlx::{Database, Pool};
use tokio::runtime::Builder;

use super::{LEASE, WAIT, cancelled, granted, request};

/// The attempt arrives and is granted, its connection breaks, and there is no other connection. The
/// refusal of the last try says nothing about the first. `behind` is a client of the store of
/// `direct`, whose one connection goes through `proxy`.
pub(crate) async fn broken_attempt_is_in_doubt(
    direct: &Arc<dyn Backend>,
    behind: &Arc<dyn Backend>,
    proxy: &Proxy,
) {
    proxy.set(Mode::HalfCut).await.unwrap();
    let lost = request("warm");
    let attempt = behind.try_acquire(&lost);
    let fault = async {
        let swallowed = |now: &Counters| now.to_client.swallowed > 0;
        proxy.until("the answer to be lost", WAIT, swallowed).await.unwrap();
        proxy.set(Mode::Reset).await.unwrap();
    };
    let (answer, ()) = join(attempt, fault).await;
    let error = answer.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    let state = direct.inspect(&lost.name).await.unwrap().unwrap();
    assert_eq!(state.holder.unwrap().owner, lost.owner, "the attempt was to be carried out");
    direct.abandon(&lost).await.unwrap();
}

/// The store's own future is dropped half-way (as in sqlx#4393). Its connection does not return to
/// the pool, so the next user of the pool does not get the rest of its answer. `one` asks the pool
/// for the number 1.
pub(crate) async fn drop_attempts<DB: Database>(
    store: &Arc<dyn Backend>,
    pool: &Pool<DB>,
    one: impl AsyncFn() -> i64,
) {
    for polls in 0.. {
        let wanted = request("job");
        let attempt = cancelled(store.try_acquire(&wanted), polls).await;
        store.abandon(&wanted).await.unwrap();
        assert!(pool.size() <= 1);
        assert_eq!(one().await, 1);
        if attempt.is_some_and(|attempt| attempt.is_ok()) {
            assert!(polls > 0);
            break;
        }
    }
}

/// A firewall forgets all connections of `pool`, through `proxy`. The store of the pool notices
/// that by one statement, and the next one gets a new connection.
pub(crate) async fn silent_connections_cost_one_statement<DB: Database>(
    store: &Arc<dyn Backend>,
    pool: &Pool<DB>,
    proxy: &Proxy,
) {
    granted(store, &request("before")).await;
    let most = pool.options().get_max_connections();
    let all = join_all((0..most).map(|_| pool.acquire())).await;
    drop(all.into_iter().collect::<Result<Vec<_>, _>>().unwrap());
    let idle = async || Ok((pool.num_idle() == most as usize).then_some(()));
    until("all connections to be idle", WAIT, idle).await.unwrap();
    proxy.set(Mode::Silent).await.unwrap();
    let lost = request("lost");
    let error = store.try_acquire(&lost).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(proxy.counters().to_server.swallowed > 0, "the fault did not happen");
    // On a new connection.
    store.abandon(&lost).await.unwrap();
    granted(store, &request("after")).await;
}

/// The restart breaks all connections of the pool, but no caller gets an error.
pub(crate) async fn restart_breaks_no_attempt(
    store: &Arc<dyn Backend>,
    restart: impl Future<Output = Result<(), KitError>>,
) {
    let requests: Vec<_> = (0..4).map(|at| request(&format!("job {at}"))).collect();
    join_all(requests.iter().map(|request| granted(store, request))).await;
    restart.await.unwrap();
    granted(store, &request("job")).await;
}

/// A program may drop a store after the end of its runtime, or before it.
pub(crate) fn drop_outside_a_runtime<F>(open: impl Fn() -> F + Send + 'static)
where
    F: Future<Output = Arc<dyn Backend>>,
{
    let program = move || {
        for the_runtime_first in [false, true] {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let store = runtime.block_on(async {
                let store = open().await;
                let name = |at| format!("{at}, {the_runtime_first}");
                let requests: Vec<_> = (0..3).map(|at| request(&name(at))).collect();
                join_all(requests.iter().map(|request| granted(&store, request))).await;
                store
            });
            let runtime = (!the_runtime_first).then_some(runtime);
            drop(store);
            drop(runtime);
        }
    };
    // No thread of the test's own runtime.
    std::thread::spawn(program).join().unwrap();
}

/// `open` opens the store of `direct` at another address, with one connection that is already open.
/// It has taken and released the name `warm`.
pub(crate) async fn late_first_try(
    server: SocketAddr,
    direct: Arc<dyn Backend>,
    open: impl AsyncFn(SocketAddr) -> Arc<dyn Backend>,
) {
    for held in [false, true] {
        try_late(server, &direct, &open, held).await;
    }
}

async fn try_late(
    server: SocketAddr,
    direct: &Arc<dyn Backend>,
    open: &impl AsyncFn(SocketAddr) -> Arc<dyn Backend>,
    held: bool,
) {
    // The far proxy holds the request back, and the middle one breaks the connection. Later ones do
    // not pass through these two.
    let far = Proxy::start(server).await.unwrap();
    let middle = Proxy::start(far.address()).await.unwrap();
    let near = Proxy::start(middle.address()).await.unwrap();
    let client = LockClient::new(open(near.address()).await);
    let theirs = match held {
        true => Some(granted(direct, &request("warm")).await),
        false => None,
    };
    far.set(Mode::Hold).await.unwrap();
    near.redirect(server);
    let attempt = client.lock("warm").lease(LEASE).try_acquire();
    let fault = async {
        far.until("the first try", WAIT, |now| now.to_server.waiting > 0).await.unwrap();
        middle.set(Mode::Cut).await.unwrap();
    };
    let (answer, ()) = join(attempt, fault).await;
    match (answer, &theirs) {
        (Ok(TryAcquire::Acquired(guard)), None) => guard.release().await.unwrap(),
        (Ok(TryAcquire::Busy(busy)), Some(theirs)) => assert_eq!(busy.token, theirs.token),
        (other, _) => panic!("held by another: {held}, and answered {other:?}"),
    }
    if let Some(theirs) = theirs {
        direct.release(&theirs, ReleaseOptions::default()).await.unwrap();
    }
    // Now only the request in the proxy is still under way.
    client.close().await;
    let before = far.counters().to_server.passed;
    far.set(Mode::Pass).await.unwrap();
    let done = far.until("its end", WAIT, |now| now.open == 0).await.unwrap();
    assert!(done.to_server.passed > before, "the fault did not happen");
    let name = LockName::new("warm").unwrap();
    let state = direct.inspect(&name).await.unwrap().unwrap();
    assert!(state.holder.is_none(), "held by another: {held}; {state:?}");
}
