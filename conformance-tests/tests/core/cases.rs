//! Cases of the client's own guards, most of them in simulated time.

use std::{future::Future, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use lock_core::{
    Backend, ClientOptions, Enqueued, Env as _, ErrorKind, FencingToken, Grant, Guard, LockClient,
    LockName, LossReason, Memory, Migration, OwnerId, OwnerLabel, Phase, Release, Request, Signal,
    SystemEnv,
};

use crate::{
    faulty::Faulty,
    stub::{Lost, Stub, Suspended},
};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3_600);

/// So that what never comes fails the case, and does not hang it.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LONG, future).await {
        Ok(answer) => answer,
        Err(_) => panic!("{what}: not within {LONG:?}"),
    }
}

/// Held by somebody else.
async fn held(stub: &Stub, name: &str) -> Guard {
    stub.other().lock(name).acquire().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_too_late_is_given_back() {
    let stub = Stub::new();
    let client = stub.client();
    stub.hold("acquire");
    let attempt = tokio::spawn(client.lock("job").lease(SECOND).try_acquire());
    stub.reached("acquire", 1).await;
    tokio::time::sleep(2 * SECOND).await;
    stub.let_go("acquire");
    // The second attempt is answered in time, and the grant counts from before it.
    let guard = attempt.await.unwrap().unwrap().guard().unwrap();
    assert_eq!(stub.calls("acquire"), 2, "the first grant was believed");
    assert!(guard.is_valid());
}

/// A grant of another time, pushed to a place.
fn pushed(owner: OwnerId, token: FencingToken, stub: &Stub) -> Signal {
    let label = OwnerLabel::new("case").unwrap();
    let name = LockName::new("job").unwrap();
    let request = Request::new(name, owner, label, 10 * SECOND, stub.env.now());
    Signal::Granted(Grant::new(&request, token).pushed(SECOND))
}

#[tokio::test(start_paused = true)]
async fn an_old_push_is_discarded() {
    let stub = Stub::new();
    let holder = held(&stub, "job").await;
    let say = stub.script();
    let waiter = tokio::spawn(stub.client().lock("job").wait(5 * SECOND).acquire());
    stub.reached("enqueue", 1).await;
    // With the token of who holds now: from before.
    say.send(pushed(OwnerId::from_bits(1), holder.token(), &stub)).unwrap();
    let error = waiter.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(holder.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_push_that_is_spent_is_asked_for_before_anybody_gets_it() {
    let stub = Stub::new();
    let holder = held(&stub, "job").await;
    let say = stub.script();
    *stub.retry_after.lock().unwrap() = Some(LONG);
    let waiter = tokio::spawn(stub.client().lock("job").acquire());
    stub.reached("enqueue", 1).await;
    // The claim window is over when the push is read, counted from the last refusal.
    tokio::time::sleep(5 * SECOND).await;
    let above = FencingToken::new(holder.token().get() + 1).unwrap();
    let before = stub.calls("acquire");
    say.send(pushed(OwnerId::from_bits(1), above, &stub)).unwrap();
    // The attempt finds out that nothing of it is there.
    stub.reached("acquire", before + 1).await;
    holder.release().await.unwrap();
    say.send(Signal::Recheck).unwrap();
    let guard = soon("the place is served", waiter).await.unwrap().unwrap();
    assert_ne!(guard.owner(), OwnerId::from_bits(1));
    assert_eq!(stub.holder("job").await, Some(guard.owner()));
}

/// A place was granted the lock, did not hear of it, and lost it to others; then its poll was granted it again, and
/// before the answer comes it hears of the first time.
#[tokio::test(start_paused = true)]
async fn an_old_push_of_a_place_that_was_granted_again_gives_no_old_token() {
    let stub = Stub::new();
    let holder = held(&stub, "job").await;
    let say = stub.script();
    *stub.retry_after.lock().unwrap() = Some(10 * SECOND);
    let waiter = tokio::spawn(stub.client().lock("job").acquire());
    stub.reached("enqueue", 1).await;
    holder.release().await.unwrap();
    let name = LockName::new("job").unwrap();
    let first = stub.memory.inspect(&name).await.unwrap().unwrap();
    tokio::time::sleep(5 * SECOND).await;
    let other = held(&stub, "job").await;
    let between = other.token();
    other.release().await.unwrap();
    stub.hold("acquire");
    stub.lose("acquire", Lost::Answer);
    let before = stub.calls("acquire");
    tokio::time::sleep(6 * SECOND).await;
    assert_eq!(stub.calls("acquire"), before + 1, "the poll");
    assert_eq!(stub.holder("job").await, first.holder.as_ref().map(|holder| holder.owner));
    say.send(pushed(first.holder.unwrap().owner, first.token, &stub)).unwrap();
    stub.let_go("acquire");
    let guard = soon("the waiter is served", waiter).await.unwrap().unwrap();
    assert!(guard.token() > between, "{} after {between}", guard.token());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_heard_after_the_loss_revives_nothing() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").lease(SECOND).acquire().await.unwrap();
    stub.hold("renew");
    stub.hold("release");
    soon("the loss", guard.lost()).await;
    assert!(!guard.is_valid());
    stub.let_go("renew");
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(!guard.is_valid() && guard.remaining().is_zero(), "it heals");
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_is_dropped_under_way_leaves_no_lock() {
    let stub = Stub::new();
    let client = stub.client();
    stub.hold("acquire");
    let mut acquire = Box::pin(client.lock("job").acquire());
    assert!(acquire.as_mut().now_or_never().is_none());
    assert!(stub.holder("job").await.is_some(), "it was granted, and nobody has heard");
    drop(acquire);
    stub.let_go("acquire");
    assert!(stub.becomes_free("job").await, "left behind");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_an_answer_leaves_no_lock() {
    let stub = Stub::new();
    stub.lose("acquire", Lost::Answer);
    let error = stub.client().lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(stub.becomes_free("job").await, "left behind");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_does_not_arrive_is_repeated() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").acquire().await.unwrap();
    stub.lose("release", Lost::Request);
    guard.release().await.unwrap();
    assert_eq!(stub.holder("job").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_no_loss() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").lease(SECOND).acquire().await.unwrap();
    stub.lose("renew", Lost::Answer);
    stub.lose("renew", Lost::Request);
    tokio::time::sleep(10 * SECOND).await;
    assert!(guard.is_valid());
    assert!(stub.calls("renew") > 2, "nothing was lost");
}

#[tokio::test(start_paused = true)]
async fn a_ghost_of_a_place_takes_nothing() {
    let stub = Stub::new();
    let holder = held(&stub, "job").await;
    stub.lose("enqueue", Lost::Answer);
    let waiter = tokio::spawn(stub.client().lock("job").acquire());
    tokio::time::sleep(SECOND / 2).await;
    assert!(stub.calls("enqueue") > 1, "nothing was lost");
    holder.release().await.unwrap();
    let guard = soon("the waiter is served", waiter).await.unwrap().unwrap();
    let owner = guard.owner();
    guard.release().await.unwrap();
    // What was sent first is read once more, when all is over.
    let label = OwnerLabel::new("ghost").unwrap();
    let name = LockName::new("job").unwrap();
    let ghost = Request::new(name, owner, label, SECOND, stub.env.now());
    let _ = lock_core::Backend::try_acquire(&stub.memory, &ghost).await.unwrap();
    assert_eq!(stub.holder("job").await, None, "a ghost holds the lock");
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_shorter_than_the_lease_is_kept() {
    let stub = Stub::new();
    let lock = stub.client().lock("job").lease(20 * SECOND).hold_at_most(SECOND);
    let guard = lock.acquire().await.unwrap();
    assert!(guard.remaining() <= SECOND, "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn a_place_that_hears_nothing_is_served_all_the_same() {
    let stub = Stub::new();
    let holder = held(&stub, "job").await;
    let _silent = stub.script();
    let waiter = tokio::spawn(stub.client().lock("job").acquire());
    stub.reached("enqueue", 1).await;
    holder.release().await.unwrap();
    soon("the waiter is served", waiter).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_process_has_one_place_and_asks_no_more_with_more_waiters() {
    let stub = Stub::new();
    let holder = held(&stub, "job").await;
    let client = stub.client();
    let first = tokio::spawn(client.lock("job").acquire());
    stub.reached("enqueue", 1).await;
    let before = stub.calls("acquire");
    let waiters: Vec<_> = (0..10).map(|_| tokio::spawn(client.lock("job").acquire())).collect();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(stub.calls("enqueue"), 1, "more than one place");
    assert_eq!(stub.calls("acquire"), before, "a newcomer has asked");
    drop((first, waiters, holder));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_asks_as_seldom_as_the_store_tells_it() {
    let stub = Stub::new();
    let _holder = held(&stub, "job").await;
    *stub.retry_after.lock().unwrap() = Some(SECOND);
    let waiter = tokio::spawn(stub.client().lock("job").acquire());
    stub.reached("enqueue", 1).await;
    let before = stub.calls("acquire");
    tokio::time::sleep(20 * SECOND).await;
    let asked = stub.calls("acquire") - before;
    assert!((19..=21).contains(&asked), "{asked} times in 20 s");
    waiter.abort();
}

#[tokio::test(start_paused = true)]
async fn a_new_place_asks_when_it_was_told_to_and_not_when_the_last_one_was() {
    let stub = Stub::new();
    let _holder = held(&stub, "job").await;
    *stub.retry_after.lock().unwrap() = Some(SECOND);
    let say = stub.script();
    let waiter = tokio::spawn(stub.client().lock("job").acquire());
    stub.reached("enqueue", 1).await;
    let before = stub.calls("acquire");
    tokio::time::sleep(SECOND / 2).await;
    say.send(Signal::Lost("this is a case".into())).unwrap();
    tokio::time::sleep(SECOND * 9 / 10).await;
    assert_eq!(stub.calls("enqueue"), 2, "a new place");
    assert_eq!(stub.calls("acquire"), before, "it was told to come after a second");
    tokio::time::sleep(SECOND / 5).await;
    assert_eq!(stub.calls("acquire"), before + 1, "it comes after a second");
    waiter.abort();
}

#[tokio::test(start_paused = true)]
async fn a_release_is_repeated_for_as_long_as_the_store_may_keep_the_lock() {
    let stub = Stub::new();
    let holder = held(&stub, "job").await;
    let client = stub.client();
    let older = tokio::spawn(client.lock("job").lease(30 * SECOND).acquire());
    stub.reached("enqueue", 1).await;
    let waiter = tokio::spawn(client.lock("job").lease(SECOND).acquire());
    tokio::time::sleep(SECOND / 100).await;
    // Its place, with its lease, is the other's.
    older.abort();
    holder.release().await.unwrap();
    let guard = soon("the waiter is served", waiter).await.unwrap().unwrap();
    // About two seconds of tries.
    (0..9).for_each(|_| stub.lose("release", Lost::Request));
    guard.release().await.unwrap();
    assert!(stub.becomes_free("job").await);
}

#[tokio::test(start_paused = true)]
async fn a_place_is_heard_of_soon_after_a_suspend() {
    let machine = Suspended::new();
    let stub = Stub::over(machine.clone());
    *stub.retry_after.lock().unwrap() = Some(SECOND);
    let holder = held(&stub, "job").await;
    let client = stub.client();
    let waiting = || tokio::spawn(client.lock("job").lease(30 * SECOND).acquire());
    let first = waiting();
    stub.reached("enqueue", 1).await;
    let _second = waiting();
    tokio::time::sleep(SECOND / 2).await;
    holder.release().await.unwrap();
    let first = soon("the first is served", first).await.unwrap().unwrap();
    // Until it is renewed. Were the alarm of the first poll that of the looks, too, it would ring after half a
    // second, and be set to 30 s from there.
    tokio::time::sleep(12 * SECOND).await;
    machine.suspend(18 * SECOND + SECOND / 5);
    let other = tokio::spawn(stub.other().lock("job").acquire());
    tokio::time::sleep(SECOND / 50).await;
    first.release().await.unwrap();
    let _other = soon("the other is served", other).await.unwrap().unwrap();
    let before = stub.calls("acquire");
    tokio::time::sleep(3 * SECOND).await;
    assert!(stub.calls("acquire") > before, "the second is not heard of");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_told_when_validity_ends() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").lease(SECOND).acquire().await.unwrap();
    stub.hold("renew");
    let (token, ends) = (guard.cancellation_token(), stub.env.now() + guard.remaining());
    soon("the loss", token.cancelled()).await;
    let late = stub.env.now().since(ends);
    assert!(late < SECOND / 10, "told {late:?} late");
}

#[test]
fn a_runtime_that_stalls_is_told_when_validity_ends() {
    let stalled = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lease = Duration::from_millis(300);
    let client = LockClient::new(Arc::new(Memory::new()));
    let guard = stalled.block_on(client.lock("job").lease(lease).acquire()).unwrap();
    // The keeper's runtime is not driven any more.
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let told = async { tokio::time::timeout(Duration::from_secs(20), guard.lost()).await };
    let reason = other.block_on(told).expect("told by an alarm of its own");
    assert_eq!(reason, LossReason::Expired);
}

#[test]
fn a_guard_looks_at_the_clock_itself() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lease = Duration::from_millis(300);
    let client = LockClient::new(Arc::new(Memory::new()));
    let guard = runtime.block_on(client.lock("job").lease(lease).acquire()).unwrap();
    let began = SystemEnv.now();
    // Nothing runs.
    while SystemEnv.now().since(began) < lease {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_asks_nothing_of_the_store() {
    let stub = Stub::new();
    let client = stub.client();
    client.close().await;
    for error in [
        client.lock("job").try_acquire().await.unwrap_err(),
        client.lock("job").acquire().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
    assert_eq!(stub.calls("acquire"), 0);
}

#[tokio::test(start_paused = true)]
async fn close_turns_waiters_away_at_once() {
    let stub = Stub::new();
    let _holder = held(&stub, "job").await;
    *stub.retry_after.lock().unwrap() = Some(LONG);
    let client = stub.client();
    let waiter = tokio::spawn(client.lock("job").acquire());
    stub.reached("enqueue", 1).await;
    let began = stub.env.now();
    client.close().await;
    let error = waiter.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert_eq!(stub.env.now().since(began), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn close_waits_no_longer_than_a_call_may_take() {
    let stub = Stub::new();
    let options = ClientOptions { call_timeout: SECOND, ..ClientOptions::default() };
    let client = stub.client_with(options);
    let _guard = client.lock("held").acquire().await.unwrap();
    stub.hold("acquire");
    stub.hold("release");
    let mut acquire = Box::pin(client.lock("job").acquire());
    assert!(acquire.as_mut().now_or_never().is_none());
    let began = stub.env.now();
    soon("close", client.close()).await;
    // Once for what is in flight, once for the releases.
    assert!(stub.env.now().since(began) <= 2 * SECOND + SECOND / 10);
}

#[tokio::test(start_paused = true)]
async fn tokens_rise_where_the_clock_stands_still() {
    let stub = Stub::new();
    let client = stub.client();
    let mut last = FencingToken::ZERO;
    for _ in 0..10 {
        // No time passes, and each release forgets the name.
        let guard = client.lock("job").acquire().await.unwrap();
        assert!(guard.token() > last, "{} after {last}", guard.token());
        last = guard.token();
        guard.release().await.unwrap();
    }
}

async fn granted(store: &dyn Backend, request: &Request) -> Option<Grant> {
    store.try_acquire(request).await.unwrap().granted()
}

fn request(owner: u128, lease: Duration) -> Request {
    let label = OwnerLabel::new("case").unwrap();
    let name = LockName::new("job").unwrap();
    Request::new(name, OwnerId::from_bits(owner), label, lease, SystemEnv.now())
}

/// One goes forward and the other back, so that each calls the other's new store its old one.
#[tokio::test]
async fn fleets_that_roll_towards_each_other_do_not_block_each_other() {
    let stores = ["a", "b"].map(|identity| Arc::new(Faulty::named(identity)));
    let [a, b] = stores.clone().map(|store| store as Arc<dyn Backend>);
    let forth = Migration::new(a.clone(), b.clone(), Phase::Both).await.unwrap();
    let back = Migration::new(b, a, Phase::Both).await.unwrap();
    let lease = Duration::from_secs(10);
    let held = [
        granted(&stores[0].memory, &request(8, lease)).await.unwrap(),
        granted(&stores[1].memory, &request(9, lease)).await.unwrap(),
    ];
    let (first, second) = (request(1, lease), request(2, lease));
    let mut turns = Vec::new();
    for (migration, request) in [(&forth, &first), (&back, &second)] {
        match migration.enqueue(request).await.unwrap() {
            Enqueued::Waiting(turn, _) => turns.push(turn),
            other => panic!("{other:?}"),
        }
    }
    for (store, grant) in stores.iter().zip(&held) {
        store.memory.release(grant, Release::default()).await.unwrap();
    }
    let mut grants = 0;
    for _ in 0..4 {
        for (migration, request) in [(&forth, &first), (&back, &second)] {
            grants += usize::from(granted(migration, request).await.is_some());
        }
    }
    assert!(grants > 0, "each holds what the other waits for");
}

#[tokio::test]
async fn phase_both_is_as_valid_as_its_shorter_half() {
    // The second store sets less than it is asked for, as one with a longest lease of its own.
    let longest = [Duration::from_secs(30), Duration::from_secs(5)];
    let memories = longest.map(|_| Memory::new());
    let stores = [0, 1].map(|side| {
        let (memory, limit) = (memories[side].clone(), longest[side]);
        Arc::new(crate::stub::Shorter { memory, limit, name: ["a", "b"][side] }) as Arc<dyn Backend>
    });
    let [old, new] = stores;
    let both = Migration::new(old, new, Phase::Both).await.unwrap();
    let grant = granted(&both, &request(1, Duration::from_secs(30))).await.unwrap();
    assert!(grant.lease <= longest[1], "{:?}", grant.lease);
}

#[tokio::test(start_paused = true)]
async fn an_option_out_of_range_is_refused_before_the_store_is_touched() {
    let stub = Stub::new();
    let client = stub.client();
    for lock in [
        client.lock("job").lease(Duration::ZERO),
        client.lock("job").lease(LONG),
        client.lock("job").at_least(LONG),
    ] {
        let error = lock.try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    assert_eq!(stub.calls("acquire"), 0);
}
