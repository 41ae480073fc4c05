//! No clock but the looker's own ends a lease.

use std::{sync::Arc, sync::atomic::Ordering::SeqCst, time::Duration};

use lock_core::{Attempt, Backend as _, ErrorKind, ReleaseOptions};
use object_store::memory::InMemory;

use super::support::{Client, HOUR, LEASE, clocks, is_lost, is_renewed, open, reach};

/// A lease, and the margin that a looker adds.
const LOOKED: Duration = Duration::from_millis(10_102);

#[tokio::test]
async fn wall_clocks_an_hour_apart_and_set_back_harm_nothing() {
    let memory = Arc::new(InMemory::new());
    let (one, other) = (Client::of(&memory).await, Client::of(&memory).await);
    one.clocks.wall.fetch_add(HOUR.as_micros() as u64, SeqCst);
    let first = one.acquire().await.expect("it is free");
    assert!(other.acquire().await.is_none(), "its clock says that the lease has not begun");
    one.clocks.wall.fetch_sub(2 * HOUR.as_micros() as u64, SeqCst);
    assert!(is_renewed(&one.renew(&first).await));
    assert!(other.acquire().await.is_none());
    one.backend.release(&first, ReleaseOptions::new()).await.unwrap();
    let second = other.acquire().await.expect("it was released");
    assert!(second.token > first.token);
    other.backend.release(&second, ReleaseOptions::new()).await.unwrap();
    let third = one.acquire().await.expect("it was released");
    assert!(third.token > second.token);
}

#[tokio::test]
async fn a_dead_holder_is_followed_after_one_lease_of_looking() {
    let memory = Arc::new(InMemory::new());
    let (dead, other) = (Client::of(&memory).await, Client::of(&memory).await);
    dead.acquire().await.expect("it is free");
    // Nobody looks for a day. The first look shows only that there is a holder.
    other.clocks.pass(24 * HOUR);
    let (_, waited) = other.wait().await;
    assert!(waited >= LOOKED && waited <= LOOKED + Duration::from_secs(2), "{waited:?}");
}

/// A read that is sent at once and served 9 s later may show a beat that began just before it was
/// served. So a lease counts from the answer.
#[tokio::test]
async fn a_lease_counts_from_the_first_answer() {
    let memory = Arc::new(InMemory::new());
    let (holder, other) = (Client::of(&memory).await, Client::of(&memory).await);
    let grant = holder.acquire().await.expect("it is free");
    let clocks = Arc::clone(&other.clocks);
    other.bucket.on_read(async move { clocks.pass(LEASE - LEASE / 10) });
    assert!(other.acquire().await.is_none());
    other.clocks.pass(LOOKED - Duration::from_millis(1));
    assert!(other.acquire().await.is_none(), "the lease is not over on the looker's clock");
    assert!(is_renewed(&holder.renew(&grant).await));
    other.clocks.pass(Duration::from_millis(1));
    assert!(other.acquire().await.is_none(), "the holder has renewed");
}

/// A take-over and a renewal at the same time: the version decides.
#[tokio::test]
async fn who_is_followed_learns_of_it() {
    let memory = Arc::new(InMemory::new());
    let (slow, other) = (Client::of(&memory).await, Client::of(&memory).await);
    let grant = slow.acquire().await.expect("it is free");
    // The clock of the first stands still: it may be paused.
    let (next, _) = other.wait().await;
    assert!(next.token > grant.token);
    assert!(is_lost(&slow.renew(&grant).await));
    assert!(is_renewed(&other.renew(&next).await));
}

#[tokio::test]
async fn another_clients_writes_neither_end_nor_prolong_a_lease() {
    let memory = Arc::new(InMemory::new());
    let (holder, other) = (Client::of(&memory).await, Client::of(&memory).await);
    let grant = holder.acquire().await.expect("it is free");
    other.backend.abandon(&other.request()).await.unwrap();
    assert!(is_renewed(&holder.renew(&grant).await), "an abandon is no loss of another's lock");
    assert!(other.sees_it_held().await);
    for _ in 0..5 {
        other.clocks.pass(LOOKED / 5);
        other.backend.abandon(&other.request()).await.unwrap();
    }
    other.clocks.pass(Duration::from_millis(1));
    assert!(!other.sees_it_held().await, "the holder is dead, and others' writes are no beat");
}

#[tokio::test]
async fn a_clock_that_is_far_off_is_refused_at_connect() {
    let memory = Arc::new(InMemory::new());
    let (bucket, clocks) = (reach(&memory), clocks());
    open(&bucket, &clocks).await.unwrap();
    for (far, which) in
        [(HOUR.as_micros() as i64, "ahead of"), (-2 * HOUR.as_micros() as i64, "behind")]
    {
        clocks.wall.store(clocks.wall.load(SeqCst).saturating_add_signed(far), SeqCst);
        let error = open(&bucket, &clocks).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let text = error.to_string();
        assert!(text.contains(which) && text.contains("must be within 1m"), "{text}");
    }
}

/// docs/backends/object-store.md says what a waiter and a holder cost.
#[tokio::test]
async fn the_requests_of_an_hour_are_those_of_the_docs() {
    let memory = Arc::new(InMemory::new());
    let (holder, waiter) = (Client::of(&memory).await, Client::of(&memory).await);
    let grant = holder.acquire().await.expect("it is free");
    let counts =
        |client: &Client| [&client.bucket.reads, &client.bucket.writes].map(|it| it.load(SeqCst));
    let [before, of_holder] = [counts(&waiter), counts(&holder)];
    let (start, request, mut renewals) = (waiter.now(), waiter.request(), 0);
    while waiter.now().since(start) < HOUR {
        let Attempt::Busy(busy) = waiter.backend.try_acquire(&request).await.unwrap() else {
            panic!()
        };
        waiter.clocks.pass(busy.retry_after);
        // It is alive: it renews after a third of its lease.
        while holder.now().since(start) + LEASE / 3 < waiter.now().since(start) {
            holder.clocks.pass(LEASE / 3);
            assert!(is_renewed(&holder.renew(&grant).await));
            renewals += 1;
        }
    }
    let [reads, writes] = counts(&waiter);
    println!("{} reads, {} writes, {renewals} renewals", reads - before[0], writes - before[1]);
    assert!((700..=900).contains(&(reads - before[0])), "{reads}");
    assert_eq!(writes, before[1], "a waiter writes nothing");
    let [reads, writes] = counts(&holder);
    assert_eq!([reads - of_holder[0], writes - of_holder[1]], [0, renewals], "one write for each");
}
