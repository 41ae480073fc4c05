//! A server that has reached its maxmemory and evicts nothing. It accepts no new locks. Held locks
//! can still be renewed, claimed, released and granted to waiters.

use std::time::Duration;

use futures_util::future::{join, join_all};
use lock_core::{
    Attempt, Backend, Enqueued, Env as _, Error, ErrorKind, FencingToken, Grant, ReleaseOptions,
    ReleaseOutcome, Renewal, Request, Signal, SystemEnv, Waiter,
};
use servers::Redis;

use crate::support::{busy, connect, enqueued, granted, name, renewed, request, server, url};

const LEASE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(20);

async fn limit(server: &Redis, bytes: &str) {
    assert_eq!(server.cli(&["CONFIG", "SET", "maxmemory", bytes]).await.unwrap(), "OK");
}

/// From now on the server has no memory left.
async fn fill(server: &Redis) {
    limit(server, "1").await;
    assert!(
        server.cli(&["SET", "more", "1"]).await.unwrap().contains("OOM"),
        "there is memory left"
    );
}

async fn refused(store: &dyn Backend, asked: &Request) {
    full(&store.try_acquire(asked).await.unwrap_err());
}

fn full(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("maxmemory"), "{error}");
}

/// The grant that is pushed to a waiter.
async fn pushed(turn: &mut Box<dyn Waiter>) -> Grant {
    match tokio::time::timeout(SOON, turn.next()).await.unwrap() {
        Signal::Granted(grant) => grant,
        other => panic!("no push: {other:?}"),
    }
}

/// How long the store still keeps a lock.
async fn left(store: &dyn Backend, text: &str) -> Duration {
    store.inspect(&name(text)).await.unwrap().unwrap().holder.unwrap().remaining
}

#[tokio::test]
async fn with_no_memory_left_held_locks_are_unharmed() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let own = request("a", LEASE);
    let grant = granted(&*store, &own).await;
    let waiter = connect(&url(&server)).await;
    let (mut turn, _) = enqueued(&*waiter, &request("a", LEASE)).await;
    fill(&server).await;
    refused(&*store, &request("b", LEASE)).await;
    renewed(&*store, &[&grant]).await;
    // A repeat of an attempt finds its grant.
    assert_eq!(granted(&*store, &own).await.token, grant.token);
    store.raise(&grant, FencingToken::new(grant.token.get() + 5).unwrap()).await.unwrap();
    let released = store.release(&grant, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
    // A handoff gives the lock to the waiter, which claims it.
    let next = pushed(&mut turn).await;
    assert!(next.token.get() > grant.token.get() + 5);
    renewed(&*waiter, &[&next]).await;
    assert!(left(&*store, "a").await > LEASE / 2, "the claim gave no whole lease");
    let kept = ReleaseOptions::new().with_keep(LEASE / 2);
    assert_eq!(waiter.release(&next, kept).await.unwrap().outcome, ReleaseOutcome::Released);
    assert!(store.inspect(&name("a")).await.unwrap().unwrap().kept);
    assert_eq!(store.force_release(&name("a")).await.unwrap(), ReleaseOutcome::Released);
    refused(&*store, &request("a", LEASE)).await;
    limit(&server, "0").await;
    granted(&*store, &request("a", LEASE)).await;
}

#[tokio::test]
async fn a_push_is_claimed_with_no_memory_left_by_a_renewal_and_by_an_attempt() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let mut waiting = Vec::new();
    for text in ["renewed", "asked"] {
        let grant = granted(&*store, &request(text, LEASE)).await;
        let waiter = request(text, LEASE);
        let (turn, _) = enqueued(&*store, &waiter).await;
        waiting.push((grant, waiter, turn));
    }
    for (grant, ..) in &waiting {
        store.release(grant, ReleaseOptions::default()).await.unwrap();
    }
    fill(&server).await;
    let (_, _, turn) = &mut waiting[0];
    let grant = pushed(turn).await;
    renewed(&*store, &[&grant]).await;
    let (_, waiter, turn) = &mut waiting[1];
    let grant = pushed(turn).await;
    assert_eq!(granted(&*store, waiter).await.token, grant.token);
    for text in ["renewed", "asked"] {
        assert!(left(&*store, text).await > LEASE / 2, "{text}");
    }
}

#[tokio::test]
async fn with_no_memory_left_a_release_carries_the_next_request() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let mut held = granted(&*store, &request("a", LEASE)).await;
    fill(&server).await;
    for _ in 0..2 {
        let next = request("a", LEASE);
        let options = ReleaseOptions::new().with_next(&next);
        let released = store.release(&held, options).await.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::Released);
        let Some(Enqueued::Granted(grant)) = released.next else {
            panic!("nobody else waits: {released:?}")
        };
        held = grant;
    }
    // If another client waits, the next request goes behind it.
    limit(&server, "0").await;
    let (mut turn, _) = enqueued(&*store, &request("a", LEASE)).await;
    fill(&server).await;
    let next = request("a", LEASE);
    let options = ReleaseOptions::new().with_next(&next);
    let released = store.release(&held, options).await.unwrap();
    let Some(Enqueued::Waiting(mut last, _)) = released.next else { panic!("{released:?}") };
    let other = pushed(&mut turn).await;
    renewed(&*store, &[&other]).await;
    store.release(&other, ReleaseOptions::default()).await.unwrap();
    assert_eq!(pushed(&mut last).await.owner, next.owner);
    // The release of a lock that is not held is answered so, whatever becomes of the next request.
    let another = request("a", LEASE);
    let options = ReleaseOptions::new().with_next(&another);
    let again = store.release(&other, options).await.unwrap();
    assert_eq!(again.outcome, ReleaseOutcome::NotHeld);
    assert!(again.next.is_none(), "a new entry needs memory");
}

#[tokio::test]
async fn with_no_memory_left_an_abandoned_owner_is_freed_refused_and_passed_over() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let (holder, leaver, waiter) = (request("a", LEASE), request("a", LEASE), request("a", LEASE));
    granted(&*store, &holder).await;
    let (_left, _) = enqueued(&*store, &leaver).await;
    let (mut turn, _) = enqueued(&*store, &waiter).await;
    let stranger = request("a", LEASE);
    fill(&server).await;
    for owner in [&leaver, &stranger, &holder] {
        store.abandon(owner).await.unwrap();
    }
    let grant = pushed(&mut turn).await;
    assert_eq!(grant.owner, waiter.owner);
    store.release(&grant, ReleaseOptions::default()).await.unwrap();
    limit(&server, "0").await;
    for owner in [&leaver, &stranger, &holder] {
        busy(&*store, owner).await;
    }
    granted(&*store, &request("a", LEASE)).await;
}

#[tokio::test]
async fn with_no_memory_left_a_waiter_keeps_its_entry_and_is_served() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let held = granted(&*store, &request("a", LEASE)).await;
    let waiter = request("a", LEASE);
    let (mut turn, _) = enqueued(&*store, &waiter).await;
    let entries = server.cli(&["KEYS", "*:entries:a"]).await.unwrap();
    let until = async || server.cli(&["HVALS", &entries]).await.unwrap();
    let before = until().await;
    fill(&server).await;
    busy(&*store, &waiter).await;
    assert!(until().await > before, "the entry will be taken for dead");
    // A new entry would need memory.
    full(&store.enqueue(&request("a", LEASE)).await.unwrap_err());
    // The holder's lease ends, and the next waiter in the queue asks for the lock.
    store.force_release(&held.name).await.unwrap();
    assert_eq!(pushed(&mut turn).await.owner, waiter.owner);
}

#[tokio::test]
async fn with_no_memory_left_batches_release() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let requests: Vec<_> = (0..40).map(|n| request(&format!("job {n}"), LEASE)).collect();
    let attempts = join_all(requests.iter().map(|asked| store.try_acquire(asked))).await;
    let held: Vec<_> = attempts.into_iter().filter_map(|got| got.unwrap().granted()).collect();
    assert_eq!(held.len(), 40);
    fill(&server).await;
    let (kept, freed) = held.split_at(20);
    let others: Vec<_> = (0..20).map(|n| request(&format!("other {n}"), LEASE)).collect();
    let released =
        join_all(freed.iter().map(|grant| store.release(grant, ReleaseOptions::default())));
    let attempts = join_all(others.iter().map(|asked| store.try_acquire(asked)));
    let (released, attempts) = join(released, attempts).await;
    for released in released {
        assert_eq!(released.unwrap().outcome, ReleaseOutcome::Released);
    }
    // An attempt in the same batch uses the memory that the releases free, or is refused.
    for attempt in attempts {
        match attempt {
            Ok(attempt) => assert!(matches!(attempt, Attempt::Granted(_)), "{attempt:?}"),
            Err(error) => full(&error),
        }
    }
    let answers = store.renew(&kept.iter().collect::<Vec<_>>(), SystemEnv.now()).await;
    assert!(answers.iter().all(|answer| matches!(answer, Renewal::Renewed { .. })), "{answers:?}");
    join_all((0..20).map(|n| {
        let (store, asked) = (&store, request(&format!("new {n}"), LEASE));
        async move { refused(&**store, &asked).await }
    }))
    .await;
}
