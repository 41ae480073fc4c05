//! What the tests of all databases share.
#![allow(dead_code)] // a build with one database uses only a part

pub(crate) mod checks;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod faults;
pub(crate) mod foreign;
#[cfg(feature = "mysql")]
pub(crate) mod mariadb;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod settings;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) mod tls;
pub(crate) mod turns;
pub(crate) mod unknown_errors;
pub(crate) mod versions;

use std::{pin::pin, sync::Arc, task::Poll, time::Duration};

use backend_sql::Strategy;
use futures_util::future::poll_fn;
use lock_core::{
    Attempt, Backend, Busy, Enqueued, Env as _, Error, FenceError, FencingToken, Grant, LockClient,
    LockName, LockState, OwnerId, OwnerLabel, ReleaseOptions, ReleaseOutcome, Renewal, Request,
    SystemEnv, Waiter,
};

pub(crate) const BOTH: [Strategy; 2] = [Strategy::PrimaryKey, Strategy::Optimistic];
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// Longer than any test takes, so a lock that is left behind stays.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// Shorter than that lease, so a lock that is left behind is in the way.
pub(crate) const WAIT: Duration = Duration::from_secs(20);

pub(crate) fn request_for(name: &str, lease: Duration) -> Request {
    let owner = OwnerId::from_bits(SystemEnv.random());
    let label = OwnerLabel::new("test").unwrap();
    Request::new(LockName::new(name).unwrap(), owner, label, lease, SystemEnv.now())
}

pub(crate) fn request(name: &str) -> Request {
    request_for(name, LEASE)
}

/// The database's error to a write through a fence.
pub(crate) fn of_the_database(refused: FenceError) -> Error {
    match refused {
        FenceError::Store(error) => error,
        other => panic!("{other}"),
    }
}

pub(crate) async fn granted(store: &Arc<dyn Backend>, request: &Request) -> Grant {
    match store.try_acquire(request).await.unwrap() {
        Attempt::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

/// Takes a lock and releases it, so that its row stays. One release in a thousand sweeps it away.
pub(crate) async fn used_once(store: &Arc<dyn Backend>, request: &Request) -> Grant {
    loop {
        let grant = used(store, request).await;
        if store.inspect(&request.name).await.unwrap().is_some() {
            return grant;
        }
    }
}

async fn used(store: &Arc<dyn Backend>, request: &Request) -> Grant {
    let grant = granted(store, request).await;
    store.release(&grant, ReleaseOptions::default()).await.unwrap();
    grant
}

pub(crate) async fn assert_renewed(store: &Arc<dyn Backend>, grant: &Grant) {
    let answers = store.renew(&[grant], SystemEnv.now()).await;
    assert!(matches!(answers[..], [Renewal::Renewed { .. }]), "{answers:?}");
}

/// Asserts that others hold the lock, or come first.
pub(crate) async fn busy(store: &Arc<dyn Backend>, request: &Request) -> Busy {
    match store.try_acquire(request).await.unwrap() {
        Attempt::Busy(busy) => busy,
        other => panic!("not busy: {other:?}"),
    }
}

/// Enters the queue of a name that another client holds.
pub(crate) async fn enqueue(store: &Arc<dyn Backend>, request: &Request) -> Box<dyn Waiter> {
    match store.enqueue(request).await.unwrap() {
        Enqueued::Waiting(waiter, _) => waiter,
        other => panic!("no queue entry: {other:?}"),
    }
}

/// A client sweeps once in a thousand releases. These are as many, of one name.
pub(crate) async fn cause_a_sweep(store: &Arc<dyn Backend>) {
    for _ in 0..1_000 {
        used(store, &request_for("busy", LEASE)).await;
    }
}

/// Unreadable rows keep their locks held, hide no other row from a listing, and can be released by
/// force. `damage` sets the columns of a name's row to one of `columns`.
pub(crate) async fn damaged_rows_hold_their_locks(
    store: &Arc<dyn Backend>,
    columns: &[&str],
    no_name: &str,
    damage: impl AsyncFn(&str, &str),
) {
    let is_unreadable = |state: &LockState| {
        state.unreadable && state.holder.as_ref().unwrap().remaining > Duration::ZERO
    };
    let good = granted(store, &request_for("good", LEASE)).await;
    // A row without a valid name comes first in the listing.
    granted(store, &request_for("nameless", LEASE)).await;
    damage("nameless", &format!("name = {no_name}")).await;
    let names: Vec<_> = (0..columns.len()).map(|at| format!("damaged {at}")).collect();
    for (name, columns) in names.iter().zip(columns) {
        granted(store, &request_for(name, LEASE)).await;
        damage(name, columns).await;
        let holder = busy(store, &request_for(name, LEASE)).await.holder;
        assert!(holder.unwrap().is_unreadable(), "{columns}");
        let state = store.inspect(&LockName::new(name).unwrap()).await.unwrap().unwrap();
        assert!(is_unreadable(&state), "{columns}: {state:?}");
    }
    let listed = store.list(None).await.unwrap().locks;
    assert_eq!(listed.len(), names.len() + 1, "{listed:?}");
    for state in listed {
        assert_eq!(is_unreadable(&state), state.name != good.name, "{state:?}");
    }
    for name in &names {
        let freed = store.force_release(&LockName::new(name).unwrap()).await.unwrap();
        assert_eq!(freed, ReleaseOutcome::Released, "{name}");
        granted(store, &request_for(name, LEASE)).await;
    }
    // A row that nobody holds.
    let name = "free";
    for column in ["token", "version"] {
        used_once(store, &request_for(name, LEASE)).await;
        damage(name, &format!("{column} = {}", i64::MAX)).await;
        // Also by a client that remembers the row's version.
        store.try_acquire(&request_for(name, LEASE)).await.unwrap_err();
        let before = store.highest_token().await.unwrap();
        let freed = store.force_release(&LockName::new(name).unwrap()).await.unwrap();
        assert_eq!(freed, ReleaseOutcome::Released, "{column}");
        let grant = used(store, &request_for(name, LEASE)).await;
        assert!(grant.token > good.token && Some(grant.token) != before, "{column}: {grant:?}");
    }
}

/// The tokens of two grants of a lock, one after the other.
pub(crate) async fn two_tokens(store: Arc<dyn Backend>) -> [FencingToken; 2] {
    let client = LockClient::new(store);
    let mut tokens = [FencingToken::ZERO; 2];
    for token in &mut tokens {
        let guard = client.lock("account").acquire().await.unwrap();
        *token = guard.token();
        guard.release().await.unwrap();
    }
    tokens
}

/// Polls `future` at most `polls` times, and then drops it. Returns its output if it ended.
pub(crate) async fn cancelled<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // The last poll: do not wait any more.
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Drops an acquire after any number of polls. Nothing of it is in the way of another client.
pub(crate) async fn drop_acquires(ours: &LockClient, theirs: &LockClient) {
    let mut polls = 0;
    loop {
        let ended = cancelled(ours.lock("job").lease(LEASE).acquire(), polls).await;
        let done = ended.is_some();
        drop(ended);
        let guard = theirs.lock("job").lease(LEASE).wait(WAIT).acquire().await.unwrap();
        guard.release().await.unwrap();
        if done {
            break;
        }
        polls += 1;
    }
    println!("an acquire ends at its poll number {polls}");
    assert!(polls > 0);
}

/// Each client counts in a file with two tasks, under a lock. An overlap would lose some counts.
/// The lease is the longest that the store allows: a busy machine may stop a task for seconds.
pub(crate) async fn count(clients: Vec<LockClient>, times: u64) {
    let folder = tempfile::tempdir().unwrap();
    let counter = folder.path().join("counter");
    std::fs::write(&counter, "0").unwrap();
    let mut tasks = Vec::new();
    for client in clients.iter().chain(&clients) {
        let (client, counter) = (client.clone(), counter.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..times {
                let lock = client.lock("counter").lease(Duration::from_secs(30));
                let guard = lock.acquire().await.unwrap();
                let value: u64 = std::fs::read_to_string(&counter).unwrap().parse().unwrap();
                std::fs::write(&counter, (value + 1).to_string()).unwrap();
                guard.release().await.unwrap();
            }
        }));
    }
    let all = tasks.len() as u64 * times;
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(std::fs::read_to_string(&counter).unwrap(), all.to_string());
}
