//! Futures that are dropped half-way, over SQLite: nothing is left behind, whatever was under way.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

use std::{path::Path, pin::pin, task::Poll, time::Duration};

use backend_sql::{Strategy, sqlite::SqliteBuilder};
use futures_util::future::poll_fn;
use lock_core::{Env as _, LockClient, LockName, OwnerId, OwnerLabel, Release, Request, SystemEnv};

const BOTH: [Strategy; 2] = [Strategy::PrimaryKey, Strategy::Optimistic];
/// Longer than any test takes: what is left behind stays.
const LEASE: Duration = Duration::from_secs(30);
/// Shorter than the lease: what is left behind is in the way.
const WAIT: Duration = Duration::from_secs(20);

async fn client(path: &Path, strategy: Strategy) -> LockClient {
    LockClient::new(SqliteBuilder::new(path).strategy(strategy).build().await.unwrap())
}

/// Polls `future` at most `polls` times and drops it; whether it had ended.
async fn cancelled<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // Cancelled without waiting for anything when these were all.
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[tokio::test]
async fn an_acquire_dropped_after_any_poll_leaves_no_lock() {
    for strategy in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let (ours, theirs) = (client(&path, strategy).await, client(&path, strategy).await);
        let mut polls = 0;
        loop {
            let acquire = ours.lock("job").lease(LEASE).acquire();
            let ended = cancelled(acquire, polls).await;
            let done = ended.is_some();
            drop(ended);
            let guard = theirs.lock("job").lease(LEASE).wait(WAIT).acquire().await.unwrap();
            guard.release().await.unwrap();
            if done {
                break;
            }
            polls += 1;
        }
        println!("{strategy}: an acquire ends at its poll number {polls}");
        assert!(polls > 0);
    }
}

#[tokio::test]
async fn a_waiting_acquire_dropped_after_any_poll_leaves_no_lock() {
    for strategy in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let (ours, theirs) = (client(&path, strategy).await, client(&path, strategy).await);
        for polls in 0..12 {
            let guard = theirs.lock("job").lease(LEASE).wait(WAIT).acquire().await.unwrap();
            let acquire = ours.lock("job").lease(LEASE).acquire();
            let release = async {
                // While the other one waits, or is about to.
                SystemEnv.sleep(Duration::from_millis(polls as u64)).await;
                guard.release().await.unwrap();
            };
            let (_, ()) = tokio::join!(cancelled(acquire, polls), release);
        }
        let guard = theirs.lock("job").lease(LEASE).wait(WAIT).acquire().await.unwrap();
        guard.release().await.unwrap();
    }
}

/// The backend's own futures, cut off without a client to clean up: the connection stays usable and
/// in no transaction, also for others.
#[tokio::test]
async fn calls_dropped_after_any_poll_leave_the_connection_usable() {
    for strategy in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let store = SqliteBuilder::new(&path).strategy(strategy).build().await.unwrap();
        let other = SqliteBuilder::new(&path).strategy(strategy).build().await.unwrap();
        let request = |name: String| {
            let owner = OwnerId::from_bits(SystemEnv.random());
            let label = OwnerLabel::of_this_process();
            Request::new(LockName::new(name).unwrap(), owner, label, LEASE, SystemEnv.now())
        };
        for polls in 0..8 {
            let cut = request(format!("cut {polls}"));
            let whole = store.try_acquire(&request(format!("whole {polls}"))).await;
            let grant = whole.unwrap().granted().unwrap();
            let _ = cancelled(store.try_acquire(&cut), polls).await;
            let _ = cancelled(store.renew(&[&grant], SystemEnv.now()), polls).await;
            let _ = cancelled(store.release(&grant, Release::default()), polls).await;
            let _ = cancelled(store.abandon(&cut), polls).await;
            // A transaction left open would keep the other one from writing.
            let free = request(format!("free {polls}"));
            assert!(other.try_acquire(&free).await.unwrap().granted().is_some());
            // What was cut is mended by a repeat.
            store.abandon(&cut).await.unwrap();
            let state = store.inspect(&cut.name).await.unwrap();
            assert!(state.is_none_or(|state| state.holder.is_none()));
        }
    }
}
