//! A closed client leaves no task behind.

use std::time::Duration;

use lock_core::LockClient;
use servers::wait::until;

use crate::support::{connect, queue_of, single};

fn alive() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

async fn none_is_left(what: &str) {
    until(what, Duration::from_secs(20), || async { Ok((alive() == 0).then_some(())) })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_closed_client_leaves_no_task() {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    assert_eq!(alive(), 0);
    drop(connect(address, "5s").await);
    none_is_left("a connection that did nothing").await;

    let client = LockClient::new(connect(address, "5s").await);
    client.lock("job").acquire().await.unwrap().release().await.unwrap();
    client.close().await;
    drop(client);
    none_is_left("a client that held a lock").await;

    let [holder, waiter] = [connect(address, "5s").await, connect(address, "5s").await];
    let [holder, waiter] = [holder, waiter].map(LockClient::new);
    let guard = holder.lock("job").acquire().await.unwrap();
    let waiting = waiter.lock("job").wait(Duration::from_millis(500)).acquire();
    assert!(waiting.await.is_err());
    let (next, released) = tokio::join!(waiter.lock("job").acquire(), async {
        queue_of(&**holder.backend(), 1).await;
        guard.release().await
    });
    released.unwrap();
    next.unwrap().release().await.unwrap();
    for client in [holder, waiter] {
        client.close().await;
        drop(client);
    }
    none_is_left("a client that waited").await;
}
