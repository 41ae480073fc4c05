//! What a store must do, and what nobody may do to its objects.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use lock_core::{Attempt, Backend as _, ErrorKind, ReleaseOptions, ReleaseOutcome};
use object_store::{ObjectStoreExt as _, memory::InMemory, path::Path};

use super::support::{Client, clocks, is_lost, job, open, reach};

#[tokio::test]
async fn a_store_that_ignores_a_condition_is_refused() {
    // At the first connect, and at a later one.
    for is_used in [false, true] {
        for (ignored, named) in [(true, "If-Match"), (false, "If-None-Match")] {
            let (memory, clocks) = (Arc::new(InMemory::new()), clocks());
            if is_used {
                open(&reach(&memory), &clocks).await.unwrap();
            }
            let bucket = reach(&memory);
            *bucket.ignores.lock() = Some(ignored);
            let error = open(&bucket, &clocks).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains(&format!("ignores {named}:")), "{error}");
        }
    }
}

#[tokio::test]
async fn a_connect_to_a_store_in_use_changes_nothing() {
    let memory = Arc::new(InMemory::new());
    open(&reach(&memory), &clocks()).await.unwrap();
    let objects = async || {
        let mut found = Vec::new();
        for key in ["settings", "probe"] {
            found.push(memory.get(&Path::from(key)).await.unwrap().bytes().await.unwrap());
        }
        found
    };
    let (before, bucket) = (objects().await, reach(&memory));
    open(&bucket, &clocks()).await.unwrap();
    assert_eq!(objects().await, before);
    assert_eq!(bucket.writes.load(SeqCst), 2, "writes that the store refuses");
}

#[tokio::test]
async fn a_deleted_object_is_a_loss_and_is_not_made_again() {
    let memory = Arc::new(InMemory::new());
    let client = Client::of(&memory).await;
    let grant = client.acquire().await.expect("it is free");
    memory.delete(&Path::from("locks/job")).await.unwrap();
    assert!(is_lost(&client.renew(&grant).await));
    let released = client.backend.release(&grant, ReleaseOptions::new()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::NotHeld);
    assert!(client.backend.inspect(&job()).await.unwrap().is_none());
}

#[tokio::test]
async fn an_object_of_another_program_is_held_until_an_operator_frees_it() {
    let memory = Arc::new(InMemory::new());
    let client = Client::of(&memory).await;
    memory.put(&Path::from("locks/job"), "hello".into()).await.unwrap();
    let attempt = client.backend.try_acquire(&client.request()).await.unwrap();
    let Attempt::Busy(busy) = attempt else { panic!("{attempt:?}") };
    assert!(busy.holder.is_some_and(|holder| holder.is_unreadable() && holder.has_no_end()));
    let freed = client.backend.force_release(&job()).await.unwrap();
    assert_eq!(freed, ReleaseOutcome::Released);
    assert!(client.acquire().await.is_some());
    memory.put(&Path::from("settings"), "hello".into()).await.unwrap();
    let error = open(&client.bucket, &client.clocks).await.unwrap_err();
    assert!(error.to_string().contains("choose another prefix"), "{error}");
}
