//! Futures of the SQLite store that are dropped half-way.

use crate::support::{BOTH, LEASE, cancelled, request_for, sqlite::file};
use backend_sql::sqlite::SqliteBuilder;
use lock_core::{Env as _, ReleaseOptions, SystemEnv};

/// The backend's own futures are dropped, and no client cleans up. The connection stays usable, no
/// transaction stays open, and other clients can write.
#[tokio::test]
async fn calls_dropped_after_any_poll_leave_the_connection_usable() {
    for strategy in BOTH {
        let (_folder, path) = file();
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
            // A repeat completes what was cut off.
            store.abandon(&cut).await.unwrap();
            let state = store.inspect(&cut.name).await.unwrap();
            assert!(state.is_none_or(|state| state.holder.is_none()));
        }
    }
}
