//! No clock but the looker's own ends a lease.

use std::{sync::Arc, sync::atomic::Ordering::SeqCst, time::Duration};

use lock_core::{Attempt, Backend as _, ErrorKind, ReleaseOptions};
use object_store::memory::InMemory;

use super::support::{Client, HOUR, LEASE, clocks, is_lost, is_renewed, jobs, open, reach};

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

/// The last client has connected at any time before.
#[tokio::test]
async fn a_clock_that_is_more_than_a_minute_off_is_refused_at_connect() {
    let (bucket, clocks) = (reach(&Arc::new(InMemory::new())), clocks());
    let start = clocks.wall.load(SeqCst);
    for (ahead, refused) in [
        (60, None),
        (-60, None),
        (61, Some("1m 1s ahead of")),
        (-61, Some("1m 1s behind")),
        (-3_600, Some("1h behind")),
    ] {
        let ahead_micros = ahead * 1_000_000;
        bucket.clock.store(start.saturating_add_signed(-ahead_micros), SeqCst);
        // It looks as if this object were new.
        bucket.modified.lock().insert("probe".to_owned(), start);
        let opened = open(&bucket, &clocks).await;
        let Some(which) = refused else {
            assert!(opened.is_ok(), "{ahead} s ahead");
            continue;
        };
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let text = error.to_string();
        assert!(text.contains(which) && text.contains("must be within 1m"), "{text}");
    }
}

/// A wait that was given up makes the next one neither slower nor dearer.
#[tokio::test]
async fn each_wait_begins_with_short_pauses() {
    let memory = Arc::new(InMemory::new());
    let (holder, waiter) = (Client::of(&memory).await, Client::of(&memory).await);
    let grant = holder.acquire().await.expect("it is free");
    let poll = async || {
        assert!(is_renewed(&holder.renew(&grant).await));
        let attempt = waiter.backend.try_acquire(&waiter.request()).await.unwrap();
        let Attempt::Busy(busy) = attempt else { panic!("{attempt:?}") };
        busy.retry_after
    };
    assert!(poll().await <= Duration::from_millis(200));
    for _ in 0..30 {
        waiter.clocks.pass(Duration::from_secs(5));
        poll().await;
    }
    assert!(poll().await > Duration::from_secs(3), "the wait has become long");
    waiter.clocks.pass(Duration::from_secs(60));
    assert!(poll().await <= Duration::from_millis(200), "this is another wait");
}

/// Also if one client waits for very many locks for longer than the longest lease.
#[tokio::test]
async fn a_long_wait_for_many_locks_stays_slow() {
    let memory = Arc::new(InMemory::new());
    let (holder, waiter) = (Client::of(&memory).await, Client::of(&memory).await);
    let (names, mut grants) = (jobs(1_100), Vec::new());
    for name in &names {
        let request = holder.request_of(name.clone());
        grants.extend(holder.backend.try_acquire(&request).await.unwrap().granted());
    }
    let grants: Vec<_> = grants.iter().collect();
    let mut last = Vec::new();
    for _ in 0..10 {
        assert!(holder.backend.renew(&grants, holder.now()).await.iter().all(is_renewed));
        last.clear();
        for name in &names {
            let request = waiter.request_of(name.clone());
            let attempt = waiter.backend.try_acquire(&request).await.unwrap();
            let Attempt::Busy(busy) = attempt else { panic!("{attempt:?}") };
            last.push(busy.retry_after);
        }
        waiter.clocks.pass(Duration::from_secs(5));
    }
    let fastest = last.iter().min();
    assert!(fastest > Some(&Duration::from_secs(3)), "{fastest:?}");
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
    assert!((760..=960).contains(&(reads - before[0])), "{reads}");
    assert_eq!(writes, before[1], "a waiter writes nothing");
    let [reads, writes] = counts(&holder);
    assert_eq!(writes - of_holder[1], renewals, "one write for each");
    assert!((50..=60).contains(&(reads - of_holder[0])), "the settings, once a minute");
}
