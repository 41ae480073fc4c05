//! Lost and late replies, refusals of what was carried out, and a store that is overloaded.

use std::sync::{Arc, atomic::Ordering::SeqCst};
use std::time::Duration;

use backend_object_store::cas::Put;
use lock_core::{
    Backend as _, FencingToken, RecordWrite, ReleaseOptions, ReleaseOutcome, Renewal, WriteOutcome,
};
use object_store::memory::InMemory;

use super::support::{Client, Fault, is_renewed, job};

const UNKNOWN: [Fault; 2] = [Fault::LostReply, Fault::RefusedRepeat];

/// Each write is carried out, and its client does not learn it from the answer.
#[tokio::test]
async fn a_lost_reply_is_resolved_by_the_own_nonce() {
    for fault in UNKNOWN {
        let memory = Arc::new(InMemory::new());
        let client = Client::of(&memory).await;
        let (bucket, backend) = (&client.bucket, &client.backend);
        let writes = || bucket.writes.load(SeqCst);
        let before = writes();
        bucket.fail([fault]);
        let grant = client.acquire().await.expect("it has the lock");
        bucket.fail([fault]);
        assert!(is_renewed(&client.renew(&grant).await));
        bucket.fail([fault]);
        backend.raise(&grant, FencingToken::new(grant.token.get() + 5).unwrap()).await.unwrap();
        bucket.fail([fault]);
        let write = RecordWrite::new("done", Duration::from_secs(60)).unwrap();
        let written = backend.write_record(&grant, &write).await.unwrap();
        assert_eq!(written, WriteOutcome::Written);
        bucket.fail([fault]);
        let released = backend.release(&grant, ReleaseOptions::new()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);
        let again = client.acquire().await.expect("it is free");
        assert!(again.token.get() >= grant.token.get() + 6, "the raised token counts");
        bucket.fail([fault]);
        assert_eq!(backend.force_release(&job()).await.unwrap(), ReleaseOutcome::Released);
        assert!(bucket.is_done());
        assert_eq!(writes() - before, 7, "no write was repeated");
    }
}

/// An attempt is given up while its write is under way. The write comes after everything else.
#[tokio::test]
async fn a_late_write_of_an_abandoned_attempt_fails() {
    for is_known in [false, true] {
        let memory = Arc::new(InMemory::new());
        let (client, other) = (Client::of(&memory).await, Client::of(&memory).await);
        if is_known {
            let grant = other.acquire().await.expect("it is free");
            other.backend.release(&grant, ReleaseOptions::new()).await.unwrap();
        }
        client.bucket.fail([Fault::Held]);
        let request = client.request();
        let error = client.backend.try_acquire(&request).await.unwrap_err();
        assert!(error.is_ambiguous(), "{error}");
        client.backend.abandon(&request).await.unwrap();
        assert_eq!(client.bucket.deliver().await, [Put::Refused], "known name: {is_known}");
        assert!(!other.sees_it_held().await);
        assert!(other.acquire().await.is_some());
    }
}

/// The same for a renewal that comes after the release.
#[tokio::test]
async fn a_late_renewal_does_not_bring_a_lock_back() {
    let memory = Arc::new(InMemory::new());
    let client = Client::of(&memory).await;
    let grant = client.acquire().await.expect("it is free");
    client.bucket.fail([Fault::Held]);
    assert!(matches!(client.renew(&grant).await, Renewal::Unknown(_)));
    client.backend.release(&grant, ReleaseOptions::new()).await.unwrap();
    assert_eq!(client.bucket.deliver().await, [Put::Refused]);
    assert!(!client.sees_it_held().await);
}

#[tokio::test]
async fn an_overloaded_store_is_no_loss() {
    let memory = Arc::new(InMemory::new());
    let client = Client::of(&memory).await;
    let grant = client.acquire().await.expect("it is free");
    client.bucket.fail([Fault::Throttled; 3]);
    assert!(is_renewed(&client.renew(&grant).await), "the client tries again");
    client.bucket.fail([Fault::Throttled, Fault::Held]);
    assert!(matches!(client.renew(&grant).await, Renewal::Unknown(_)));
    assert!(is_renewed(&client.renew(&grant).await));
}

/// The release was carried out, its answer was lost, and another client was faster than the read.
#[tokio::test]
async fn a_forced_release_with_a_lost_reply_spares_the_next_holder() {
    let memory = Arc::new(InMemory::new());
    let (client, other) = (Client::of(&memory).await, Arc::new(Client::of(&memory).await));
    client.acquire().await.expect("it is free");
    client.bucket.fail([Fault::LostReply]);
    // The first read is that of the holder.
    let (bucket, next) = (Arc::clone(&client.bucket), Arc::clone(&other));
    client.bucket.on_read(async move {
        bucket.on_read(async move { drop(next.acquire().await.expect("it was freed")) });
    });
    let freed = client.backend.force_release(&job()).await.unwrap();
    assert_eq!(freed, ReleaseOutcome::Released);
    assert!(client.bucket.is_done() && client.sees_it_held().await, "the next holder has it");
}

/// The same for a release by the holder.
#[tokio::test]
async fn a_release_with_a_lost_reply_is_a_release() {
    let memory = Arc::new(InMemory::new());
    let (client, other) = (Client::of(&memory).await, Client::of(&memory).await);
    let grant = client.acquire().await.expect("it is free");
    client.bucket.fail([Fault::LostReply]);
    client.bucket.on_read(async move { drop(other.acquire().await.expect("it was freed")) });
    let released = client.backend.release(&grant, ReleaseOptions::new()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    assert!(client.sees_it_held().await, "the next holder has it");
}

/// The holder knows its last write, and does not know that it was freed by force since.
#[tokio::test]
async fn a_lock_that_was_freed_by_force_is_not_held_when_it_is_released() {
    for is_taken in [false, true] {
        let memory = Arc::new(InMemory::new());
        let (client, other) = (Client::of(&memory).await, Client::of(&memory).await);
        let grant = client.acquire().await.expect("it is free");
        let freed = other.backend.force_release(&job()).await.unwrap();
        assert_eq!(freed, ReleaseOutcome::Released);
        if is_taken {
            other.acquire().await.expect("it was freed");
        }
        let released = client.backend.release(&grant, ReleaseOptions::new()).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::NotHeld, "taken: {is_taken}");
        assert_eq!(client.sees_it_held().await, is_taken);
    }
}
