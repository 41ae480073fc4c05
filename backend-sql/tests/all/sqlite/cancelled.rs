//! Futures that are dropped half-way, over SQLite: nothing is left behind, whatever was under way.

use std::{path::Path, time::Duration};

use crate::support::{BOTH, LEASE, WAIT, cancelled, drop_acquires, request_for};
use backend_sql::{Strategy, sqlite::SqliteBuilder};
use lock_core::{Env as _, LockClient, ReleaseOptions, SystemEnv};

async fn client(path: &Path, strategy: Strategy) -> LockClient {
    LockClient::new(SqliteBuilder::new(path).strategy(strategy).build().await.unwrap())
}

#[tokio::test]
async fn an_acquire_dropped_after_any_poll_leaves_no_lock() {
    for strategy in BOTH {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let (ours, theirs) = (client(&path, strategy).await, client(&path, strategy).await);
        drop_acquires(&ours, &theirs).await;
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
        for polls in 0..8 {
            let cut = request_for(&format!("cut {polls}"), LEASE);
            let whole = store.try_acquire(&request_for(&format!("whole {polls}"), LEASE)).await;
            let grant = whole.unwrap().granted().unwrap();
            let _ = cancelled(store.try_acquire(&cut), polls).await;
            let _ = cancelled(store.renew(&[&grant], SystemEnv.now()), polls).await;
            let _ = cancelled(store.release(&grant, ReleaseOptions::default()), polls).await;
            let _ = cancelled(store.abandon(&cut), polls).await;
            // A transaction left open would keep the other one from writing.
            let free = request_for(&format!("free {polls}"), LEASE);
            assert!(other.try_acquire(&free).await.unwrap().granted().is_some());
            // What was cut is mended by a repeat.
            store.abandon(&cut).await.unwrap();
            let state = store.inspect(&cut.name).await.unwrap();
            assert!(state.is_none_or(|state| state.holder.is_none()));
        }
    }
}
