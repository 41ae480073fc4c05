//! Lost and late replies, refusals of what was carried out, and a store that is overloaded.

use std::sync::{Arc, atomic::Ordering::SeqCst};
use std::time::Duration;

use backend_object_store::cas::Put;
use lock_core::{
    Backend as _, ErrorKind, FencingToken, Init, RecordWrite, ReleaseOptions, ReleaseOutcome,
    Renewal, WriteOutcome,
};
use object_store::memory::InMemory;

use super::support::{Client, Fault, is_lost, is_renewed, job, jobs, open};

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

/// Each call that only reads, and each that reads before it writes.
#[tokio::test]
async fn a_read_is_repeated_while_the_store_is_overloaded() {
    let memory = Arc::new(InMemory::new());
    let client = Client::of(&memory).await;
    let (bucket, backend) = (&client.bucket, &client.backend);
    let refuse = |count| {
        assert_eq!(bucket.refused_reads.load(SeqCst), 0, "the store has refused requests");
        bucket.refused_reads.store(count, SeqCst);
    };
    refuse(3);
    let grant = client.acquire().await.expect("it is free");
    refuse(3);
    assert!(backend.inspect(&job()).await.unwrap().is_some());
    refuse(3);
    assert_eq!(backend.list(None).await.unwrap().locks.len(), 1);
    refuse(3);
    assert!(backend.read_record(&job()).await.unwrap().record.is_none());
    refuse(3);
    open(bucket, &client.clocks).await.unwrap();
    refuse(3);
    assert_eq!(backend.force_release(&job()).await.unwrap(), ReleaseOutcome::Released);
    refuse(0);
    // A store that is down is reported soon.
    let (reads, start) = (bucket.reads.load(SeqCst), client.now());
    refuse(100);
    let error = backend.inspect(&job()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(bucket.reads.load(SeqCst) - reads, 5);
    assert!(client.now().since(start) < Duration::from_secs(1));
    bucket.refused_reads.store(0, SeqCst);
    assert!(is_lost(&client.renew(&grant).await));
}

#[tokio::test]
async fn the_settings_are_written_again_after_a_pause() {
    let client = Client::of(&Arc::new(InMemory::new())).await;
    let longest = Duration::from_secs(60);
    client.bucket.fail([Fault::Throttled, Fault::Throttled, Fault::RefusedRepeat]);
    let start = client.now();
    client.backend.init(&Init::new().with_longest_lease(longest)).await.unwrap();
    assert_eq!(client.backend.guarantees().longest_lease, longest);
    assert!(client.bucket.is_done());
    // 20, 40 and 80 ms, each shortened at random by up to a quarter.
    assert!(client.now().since(start) >= Duration::from_millis(100));
}

/// The store hangs. A call has one time limit, however many locks it renews.
#[tokio::test]
async fn renewals_of_many_locks_go_in_parallel_with_a_limit() {
    let client = Client::of(&Arc::new(InMemory::new())).await;
    let mut grants = Vec::new();
    for name in jobs(40) {
        let request = client.request_of(name);
        let grant = client.backend.try_acquire(&request).await.unwrap().granted();
        grants.push(grant.expect("it is free"));
    }
    let (first, second) = grants.split_at(20);
    let [first, second] = [first, second].map(|grants| grants.iter().collect::<Vec<_>>());
    let start = client.now();
    let renew = async || {
        let renewals = [&first, &second].map(|grants| client.backend.renew(grants, start));
        futures_util::future::join_all(renewals).await.into_iter().flatten().collect::<Vec<_>>()
    };
    client.bucket.fail([Fault::Held; 40]);
    assert!(renew().await.iter().all(|renewal| matches!(renewal, Renewal::Unknown(_))));
    assert_eq!(client.bucket.most_at_once(), 16, "of both calls");
    assert_eq!(client.now().since(start), Duration::from_secs(5));
    client.bucket.heal();
    client.bucket.deliver().await;
    assert!(renew().await.iter().all(is_renewed));
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

/// 503 says nothing about the write. Then somebody else frees the lock by force.
#[tokio::test]
async fn what_became_of_a_write_that_another_client_has_overtaken_is_unknown() {
    let memory = Arc::new(InMemory::new());
    let (client, other) = (Client::of(&memory).await, Arc::new(Client::of(&memory).await));
    let fail = || {
        client.bucket.fail([Fault::Throttled]);
        let other = Arc::clone(&other);
        async move { assert!(other.backend.force_release(&job()).await.is_ok()) }
    };
    let take = async || client.acquire().await.expect("it is free");

    let grant = take().await;
    client.bucket.on_read(fail());
    let error = client.backend.release(&grant, ReleaseOptions::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    // As the core does.
    let released = client.backend.release(&grant, ReleaseOptions::new()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::NotHeld);

    let grant = take().await;
    client.bucket.on_read(fail());
    let write = RecordWrite::new("done", Duration::from_secs(60)).unwrap();
    let error = client.backend.write_record(&grant, &write).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");

    take().await;
    let (bucket, meanwhile) = (Arc::clone(&client.bucket), fail());
    // The first read is that of the holder.
    client.bucket.on_read(async move { bucket.on_read(meanwhile) });
    let error = client.backend.force_release(&job()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");

    // The error says that the lock is gone, but not who ended it.
    let grant = take().await;
    client.bucket.on_read(fail());
    assert!(is_lost(&client.renew(&grant).await));
    assert!(client.bucket.is_done());
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
