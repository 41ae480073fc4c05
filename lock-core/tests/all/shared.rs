//! Readers and writers: what the client does. The suite tests the store.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{Backend as _, Guard, LockClient, LockName, Mode, OwnerId, TryAcquire};

use crate::support::Stub;

const SECOND: Duration = Duration::from_secs(1);

async fn readers(stub: &Stub) -> Option<u64> {
    stub.memory.inspect(&LockName::new("job").unwrap()).await.unwrap()?.readers
}

/// Waits until the lock has this many queue entries.
async fn waiting(stub: &Stub, entries: u64) {
    let name = LockName::new("job").unwrap();
    let waiting = async || stub.memory.inspect(&name).await.unwrap().and_then(|it| it.waiting);
    for _ in 0..10_000 {
        if waiting().await == Some(entries) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{:?} entries, not {entries}", waiting().await);
}

async fn read(client: &LockClient) -> Guard {
    client.lock("job").shared().acquire().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_reader_of_a_process_is_an_owner_and_leaves_alone() {
    let stub = Stub::new();
    let client = stub.client();
    let (one, two) = (read(&client).await, read(&client).await);
    assert_eq!((one.mode(), one.token()), (Mode::Shared, two.token()));
    assert_ne!(one.owner(), two.owner());
    assert_eq!(readers(&stub).await, Some(2));
    assert_eq!(stub.holder("job").await, Some(OwnerId::READERS));
    one.release().await.unwrap();
    assert_eq!(readers(&stub).await, Some(1));
    assert!(matches!(client.lock("job").try_acquire().await.unwrap(), TryAcquire::Busy(_)));
    two.release().await.unwrap();
    let writer = client.lock("job").acquire().await.unwrap();
    assert_eq!((writer.mode(), readers(&stub).await), (Mode::Exclusive, None));
}

/// A process has one queue entry for its readers. After its grant they all get the lock, one after
/// the other, without waiting for a release.
#[tokio::test(start_paused = true)]
async fn readers_that_wait_in_one_process_hold_together() {
    let stub = Stub::new();
    let client = stub.client();
    let writer = stub.other().lock("job").acquire().await.unwrap();
    let waiters: Vec<_> = (0..10)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { read(&client).await })
        })
        .collect();
    waiting(&stub, 1).await;
    writer.release().await.unwrap();
    let guards = tokio::time::timeout(SECOND, join_all(waiters)).await.expect("all are let in");
    assert_eq!(readers(&stub).await, Some(10));
    assert!(guards.into_iter().all(|guard| guard.unwrap().is_valid()));
}

/// The first attempts of readers do not wait for each other's answers.
#[tokio::test(start_paused = true)]
async fn readers_of_one_process_ask_at_the_same_time() {
    let stub = Stub::new();
    let client = stub.client();
    stub.hold("acquire");
    let waiters: Vec<_> = (0..10)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { read(&client).await })
        })
        .collect();
    while stub.calls("acquire") < 10 {
        tokio::task::yield_now().await;
    }
    stub.let_go("acquire");
    let guards = join_all(waiters).await;
    assert_eq!(readers(&stub).await, Some(10));
    drop(guards);
}

/// A reader cannot join another reader of its process while a writer waits.
#[tokio::test(start_paused = true)]
async fn a_reader_waits_behind_a_writer_even_if_its_process_holds_the_lock() {
    let stub = Stub::new();
    let client = stub.client();
    let inside = read(&client).await;
    let write = tokio::spawn(stub.other().lock("job").acquire());
    waiting(&stub, 1).await;
    let late = tokio::spawn({
        let client = client.clone();
        async move { read(&client).await }
    });
    waiting(&stub, 2).await;
    assert_eq!(readers(&stub).await, Some(1));
    inside.release().await.unwrap();
    let writer = write.await.unwrap().unwrap();
    assert!(!late.is_finished());
    let token = writer.token();
    writer.release().await.unwrap();
    assert!(late.await.unwrap().token() > token);
}

/// Without pushes, a release still wakes the waiters of its own process, in both modes.
#[tokio::test(start_paused = true)]
async fn a_release_is_noticed_by_both_kinds_of_waiters_of_its_process() {
    let stub = Stub::new();
    let _silent = stub.script();
    *stub.retry_after.lock().unwrap() = Some(3_600 * SECOND);
    let client = stub.client();
    let writer = client.lock("job").acquire().await.unwrap();
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { read(&client).await }
    });
    waiting(&stub, 1).await;
    writer.release().await.unwrap();
    let reader = tokio::time::timeout(10 * SECOND, waiter).await.expect("it asks again").unwrap();
    let _silent = stub.script();
    let write = tokio::spawn(client.lock("job").acquire());
    waiting(&stub, 1).await;
    reader.release().await.unwrap();
    let writer = tokio::time::timeout(10 * SECOND, write).await.expect("it asks again");
    writer.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_reader_leaves_no_entry_and_no_lock() {
    let stub = Stub::new();
    let (client, other) = (stub.client(), stub.other());
    for polls in 0..8 {
        let writer = other.lock("job").acquire().await.unwrap();
        let mut waiter = Box::pin(read(&client));
        for _ in 0..polls {
            let _ = futures_util::poll!(&mut waiter);
            tokio::task::yield_now().await;
        }
        let released = tokio::spawn(writer.release());
        let _ = futures_util::poll!(&mut waiter);
        drop(waiter);
        released.await.unwrap().unwrap();
        other.lock("job").wait(10 * SECOND).acquire().await.unwrap().release().await.unwrap();
    }
}
