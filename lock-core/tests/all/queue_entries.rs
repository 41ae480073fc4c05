//! Entries in the store's queue: pushes, polls and heartbeats, in simulated time.

use std::time::Duration;

use lock_core::{
    Backend as _, ClientOptions, ErrorKind, FencingToken, Grant, LockName, OwnerId, OwnerLabel,
    Request, Signal,
};

use crate::support::{Fault, Stub, SuspendableEnv, held, soon};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3_600);

/// The push of a grant with this owner and token.
fn pushed(owner: OwnerId, token: FencingToken, stub: &Stub) -> Signal {
    let label = OwnerLabel::new("case").unwrap();
    let name = LockName::new("job").unwrap();
    let request = Request::new(name, owner, label, 10 * SECOND, stub.env.now());
    Signal::Granted(Grant::new(&request, token).pushed(SECOND))
}

#[tokio::test(start_paused = true)]
async fn a_stale_push_is_discarded() {
    let stub = Stub::new();
    let holder = held(&stub, "job").await;
    let say = stub.script();
    let waiter = tokio::spawn(stub.client().lock("job").wait(5 * SECOND).acquire());
    stub.reached("enqueue", 1).await;
    // It has the token of the present holder, so it is stale.
    say.send(pushed(OwnerId::from_bits(1), holder.token(), &stub)).unwrap();
    let error = waiter.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(holder.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_push_without_validity_left_is_confirmed_by_an_attempt() {
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
    // The attempt finds that the store has no such grant.
    stub.reached("acquire", before + 1).await;
    holder.release().await.unwrap();
    say.send(Signal::Recheck).unwrap();
    let guard = soon("the entry is served", waiter).await.unwrap().unwrap();
    assert_ne!(guard.owner(), OwnerId::from_bits(1));
    assert_eq!(stub.holder("job").await, Some(guard.owner()));
}

/// An entry was granted the lock, but the push was delayed, and another client got the lock next.
/// Then a poll of the entry was granted the lock again. The push arrives before the answer to this
/// poll.
#[tokio::test(start_paused = true)]
async fn a_late_push_to_an_entry_that_was_granted_again_gives_no_old_token() {
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
    stub.fault("acquire", Fault::AnswerLost);
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
async fn a_late_request_of_an_entry_gets_nothing() {
    let stub = Stub::new();
    let holder = held(&stub, "job").await;
    stub.fault("enqueue", Fault::AnswerLost);
    let waiter = tokio::spawn(stub.client().lock("job").acquire());
    tokio::time::sleep(SECOND / 2).await;
    assert!(stub.calls("enqueue") > 1, "nothing was lost");
    holder.release().await.unwrap();
    let guard = soon("the waiter is served", waiter).await.unwrap().unwrap();
    let owner = guard.owner();
    guard.release().await.unwrap();
    // The store carries out the first request once more, after the release.
    let label = OwnerLabel::new("late").unwrap();
    let name = LockName::new("job").unwrap();
    let late = Request::new(name, owner, label, SECOND, stub.env.now());
    let _ = stub.memory.try_acquire(&late).await.unwrap();
    assert_eq!(stub.holder("job").await, None, "a late request holds the lock");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_without_pushes_is_served_by_polling() {
    let stub = Stub::new();
    let holder = held(&stub, "job").await;
    let _silent = stub.script();
    let waiter = tokio::spawn(stub.client().lock("job").acquire());
    stub.reached("enqueue", 1).await;
    holder.release().await.unwrap();
    drop(soon("the waiter is served", waiter).await.unwrap().unwrap());
}

/// A client that gives its entry up goes to the end of the queue, and on a busy store again and
/// again.
#[tokio::test(start_paused = true)]
async fn an_entry_is_kept_if_the_store_answers_late() {
    for question in ["enqueue", "acquire"] {
        let stub = Stub::new();
        let holder = held(&stub, "job").await;
        let _silent = stub.script();
        if question == "enqueue" {
            stub.hold(question);
        }
        let waiter = tokio::spawn(stub.client().lock("job").acquire());
        stub.reached("enqueue", 1).await;
        let asked = stub.calls("acquire");
        stub.hold(question);
        // Twice the time limit of a call.
        tokio::time::sleep(10 * SECOND).await;
        assert!(question == "enqueue" || stub.calls("acquire") > asked, "it did not ask");
        stub.let_go(question);
        holder.release().await.unwrap();
        drop(soon("the waiter is served", waiter).await.unwrap().unwrap());
        assert_eq!(stub.calls("enqueue"), 1, "{question}: the entry was given up");
    }
}

#[tokio::test(start_paused = true)]
async fn the_call_timeout_may_be_infinite() {
    let stub = Stub::new();
    let holder = held(&stub, "job").await;
    let client = stub.client_with(ClientOptions::new().with_call_timeout(Duration::MAX));
    let waiter = tokio::spawn(client.lock("job").acquire());
    stub.reached("enqueue", 1).await;
    tokio::time::sleep(5 * SECOND).await;
    holder.release().await.unwrap();
    drop(soon("the waiter is served", waiter).await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn more_waiters_of_one_process_cause_no_more_entries_and_attempts() {
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
    assert_eq!(stub.calls("enqueue"), 1, "more than one entry");
    assert_eq!(stub.calls("acquire"), before, "a newcomer has asked");
    drop((first, waiters, holder));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_polls_after_the_retry_after_of_the_store() {
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
async fn a_new_entry_polls_after_its_own_retry_after() {
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
    assert_eq!(stub.calls("enqueue"), 2, "a new entry");
    assert_eq!(stub.calls("acquire"), before, "it was told to come after a second");
    tokio::time::sleep(SECOND / 5).await;
    assert_eq!(stub.calls("acquire"), before + 1, "it comes after a second");
    waiter.abort();
}

#[tokio::test(start_paused = true)]
async fn an_entry_has_a_heartbeat_soon_after_a_suspend() {
    let machine = SuspendableEnv::new();
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
    // Until the lock is renewed. If polls and release checks shared one alarm, it would ring after
    // half a second, and then be set to 30 s from there.
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
