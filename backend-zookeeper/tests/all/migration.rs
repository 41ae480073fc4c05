//! A migration from ZooKeeper, and to it.

use std::{sync::Arc, time::Duration};

use backend_migration::{Migration, Phase};
use lock_core::{Backend, Memory};

use crate::support::{busy, connect, granted, name, pair, release, request_for};

/// In the phase `both` each lock is in both stores. Afterwards the new store's tokens go on above.
#[tokio::test(flavor = "multi_thread")]
async fn locks_move_from_zookeeper_and_to_it() {
    let (zookeeper, [one, _]) = pair().await;
    for to_zookeeper in [true, false] {
        let memory: Arc<dyn Backend> = Arc::new(Memory::new());
        let stores = match to_zookeeper {
            true => [memory, Arc::clone(&one)],
            false => [Arc::clone(&one), memory],
        };
        let [from, to] = stores.each_ref();
        let both = Migration::new(Arc::clone(from), Arc::clone(to), Phase::Both).await.unwrap();
        let asked = || request_for("job", Duration::from_secs(20));
        let before = granted(&**from, &asked()).await;
        busy(&both, &asked()).await;
        release(&**from, &before).await;
        let moving = granted(&both, &asked()).await;
        assert!(moving.token > before.token);
        for store in [from, to] {
            busy(&**store, &asked()).await;
        }
        release(&both, &moving).await;
        let after = granted(&**to, &asked()).await;
        assert!(after.token > moving.token, "{} after {}", after.token, moving.token);
        release(&**to, &after).await;
    }
    let again = connect(&zookeeper.endpoints(), "20s").await;
    assert!(again.inspect(&name()).await.unwrap().unwrap().holder.is_none());
}
