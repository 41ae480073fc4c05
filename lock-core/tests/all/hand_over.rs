//! A lock is handed over: detached by one client, attached by another, under faults.

use std::time::Duration;

use futures_util::FutureExt as _;
use lock_core::{
    Backend as _, DetachedLock, ErrorKind, Grant, LockClient, LockName, OwnerId, OwnerLabel,
    Request,
};

use super::support::{Fault, Stub, held, one_entry_waits, soon};

const SECOND: Duration = Duration::from_secs(1);

async fn detached(stub: &std::sync::Arc<Stub>) -> DetachedLock {
    let guard = stub.client().lock("job").acquire().await.unwrap();
    guard.detach().await.unwrap()
}

/// Another process reads what was written.
fn carried(lock: &DetachedLock) -> DetachedLock {
    serde_json::from_str(&serde_json::to_string(lock).unwrap()).unwrap()
}

fn changed(lock: &DetachedLock, from: &str, to: &str) -> DetachedLock {
    let text = serde_json::to_string(lock).unwrap();
    let changed = text.replace(from, to);
    assert_ne!(text, changed);
    serde_json::from_str(&changed).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_detached_lock_is_held_for_its_lease_and_renewed_again_after_an_attach() {
    let stub = Stub::new();
    let client = stub.client();
    let guard = client.lock("job").acquire().await.unwrap();
    let (token, owner) = (guard.token(), guard.owner());
    let monitor = guard.monitor();
    let lock = guard.detach().await.unwrap();
    assert!(!monitor.is_valid() && monitor.lost().now_or_never().is_none());
    client.close().await;
    let renewals = stub.calls("renew");
    tokio::time::sleep(9 * SECOND).await;
    assert_eq!((stub.holder("job").await, stub.calls("renew")), (Some(owner), renewals));
    let guard = stub.client().attach(&carried(&lock)).await.unwrap();
    assert_eq!(guard.token(), token);
    assert_eq!(stub.holder("job").await, Some(guard.owner()));
    tokio::time::sleep(30 * SECOND).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    assert_eq!(stub.holder("job").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_detached_lock_that_nobody_attaches_ends_with_its_lease() {
    let stub = Stub::new();
    let lock = detached(&stub).await;
    tokio::time::sleep(11 * SECOND).await;
    assert_eq!(stub.holder("job").await, None);
    let error = stub.client().attach(&lock).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    let taken = stub.other().lock("job").acquire().await.unwrap();
    let error = stub.client().attach(&lock).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    assert!(taken.is_valid());
}

/// A renewal is under way when the guard is detached, and the store reads it after an attach.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_comes_after_an_attach_changes_nothing() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").acquire().await.unwrap();
    let (name, owner, former) = (guard.name().clone(), guard.owner(), guard.grant().clone());
    stub.stall("renew");
    guard.renew_now();
    stub.reached("renew", 1).await;
    // The detach renews, too, and waits for its answer.
    assert!(guard.is_valid());
    let mut detach = Box::pin(guard.detach());
    assert!((&mut detach).now_or_never().is_none());
    stub.reached("renew", 2).await;
    stub.resume("renew");
    let lock = detach.await.unwrap();
    assert_eq!(stub.holder("job").await, Some(owner));
    let guard = stub.client().attach(&lock).await.unwrap();
    let late = stub.memory.renew(&[&former], stub.env.now()).await;
    assert!(matches!(late[..], [lock_core::Renewal::Lost(_)]), "{late:?}");
    let released = stub.memory.release(&former, lock_core::ReleaseOptions::new()).await.unwrap();
    assert_eq!(released.outcome, lock_core::ReleaseOutcome::NotHeld);
    let state = stub.memory.inspect(&name).await.unwrap().unwrap();
    assert_eq!(state.holder.unwrap().owner, guard.owner());
}

/// Without a confirmed renewal it is unknown how much of the lease is left.
#[tokio::test(start_paused = true)]
async fn a_detach_that_cannot_renew_releases_the_lock() {
    for fault in [Fault::Refused, Fault::Hangs] {
        let stub = Stub::new();
        let guard = stub.client().lock("job").acquire().await.unwrap();
        stub.fault("renew", fault);
        let error = guard.detach().await.unwrap_err();
        assert!([ErrorKind::Auth, ErrorKind::Timeout].contains(&error.kind()), "{error}");
        assert!(stub.becomes_free("job").await, "{fault:?}");
    }
    // A renewal without an answer is repeated.
    let stub = Stub::new();
    let guard = stub.client().lock("job").acquire().await.unwrap();
    stub.fault("renew", Fault::RequestLost);
    let lock = guard.detach().await.unwrap();
    assert!(stub.client().attach(&lock).await.unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_handed_over_is_refused() {
    let stub = Stub::new();
    let client = stub.client();
    let reader = client.lock("read").shared().acquire().await.unwrap();
    let permit = client.semaphore("pool", 2).acquire().await.unwrap();
    let guard = client.lock("job").acquire().await.unwrap();
    let again = guard.reenter().unwrap();
    let limited = client.lock("most").hold_at_most(60 * SECOND).acquire().await.unwrap();
    let kept = client.lock("least").at_least(SECOND).acquire().await.unwrap();
    for (guard, kind, word) in [
        (reader, ErrorKind::Unsupported, "shared"),
        (permit, ErrorKind::Unsupported, "permit"),
        (again, ErrorKind::InvalidInput, "entered again"),
        (limited, ErrorKind::InvalidInput, "hold_at_most"),
        (kept, ErrorKind::InvalidInput, "at_least"),
    ] {
        let error = guard.detach().await.unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(word), "{error}");
    }
    // The other guard still has the lock; the others are released.
    assert!(guard.is_valid() && stub.becomes_free("most").await);
    // A lock that is lost.
    stub.memory.force_release(guard.name()).await.unwrap();
    assert_eq!(guard.detach().await.unwrap_err().kind(), ErrorKind::Lost);
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_another_store_or_a_changed_one_is_refused() {
    let stub = Stub::new();
    let lock = detached(&stub).await;
    let token = lock.token().get();
    let text = serde_json::to_string(&lock).unwrap();
    let owner = stub.holder("job").await.unwrap().to_string();
    assert!(text.contains(&owner));
    for (from, to) in [
        (r#""name":"job""#, r#""name":"jib""#),
        (&*format!(r#""token":{token}"#), &*format!(r#""token":{}"#, token - 1)),
        (&*owner, &*OwnerId::from_bits(7).to_string()),
    ] {
        let error = stub.client().attach(&changed(&lock, from, to)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotHeld, "{error}");
        assert!(error.to_string().contains("was changed"), "{error}");
    }
    let lease = changed(&lock, r#""lease_ms":10000"#, r#""lease_ms":86400000"#);
    let error = stub.client().attach(&lease).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    // Two stores in memory.
    let (one, two) = (lock_core::Memory::new(), lock_core::Memory::new());
    let [one, two] = [one, two].map(|store| LockClient::new(std::sync::Arc::new(store)));
    let lock = one.lock("job").acquire().await.unwrap().detach().await.unwrap();
    let error = two.attach(&lock).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("memory:"), "{error}");
    one.attach(&lock).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_attach_without_an_answer_is_repeated_by_the_same_owner() {
    for fault in [Fault::RequestLost, Fault::AnswerLost] {
        let stub = Stub::new();
        let lock = detached(&stub).await;
        for _ in 0..3 {
            stub.fault("reown", fault);
        }
        let guard = stub.client().attach(&lock).await.unwrap();
        assert_eq!(stub.calls("reown"), 4, "{fault:?}");
        assert_eq!(stub.holder("job").await, Some(guard.owner()));
        assert!(guard.is_valid());
    }
    let stub = Stub::new();
    let lock = detached(&stub).await;
    stub.fault("reown", Fault::Refused);
    assert_eq!(stub.client().attach(&lock).await.unwrap_err().kind(), ErrorKind::Auth);
    // It is still detached.
    assert!(stub.client().attach(&lock).await.unwrap().is_valid());
}

/// The store carries an attach out late, after its client has given it up.
#[tokio::test(start_paused = true)]
async fn an_attach_that_was_given_up_takes_nothing() {
    let stub = Stub::new();
    let lock = detached(&stub).await.with_lease(9 * SECOND);
    let owner = stub.holder("job").await;
    stub.stall("reown");
    let error = stub.client().attach(&lock).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    // Its client gives the owner up once the call has ended: the grant is released.
    assert_eq!(stub.holder("job").await, owner);
    stub.resume("reown");
    assert!(stub.becomes_free("job").await, "an attach that was given up keeps the lock");
    let error = stub.client().attach(&lock).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld);
}

/// The answers are lost for longer than the client repeats the call.
#[tokio::test(start_paused = true)]
async fn an_attach_whose_answers_are_all_lost_leaves_no_lock() {
    let stub = Stub::new();
    let lock = detached(&stub).await;
    for _ in 0..1_000 {
        stub.fault("reown", Fault::AnswerLost);
    }
    let error = stub.client().attach(&lock).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    assert!(stub.becomes_free("job").await);
}

/// The caller goes away before the answer.
#[tokio::test(start_paused = true)]
async fn a_dropped_attach_leaves_no_lock() {
    let stub = Stub::new();
    let lock = detached(&stub).await;
    stub.hold("reown");
    let client = stub.client();
    let mut attach = Box::pin(client.attach(&lock));
    assert!((&mut attach).now_or_never().is_none());
    stub.reached("reown", 1).await;
    drop(attach);
    assert!(stub.holder("job").await.is_some());
    stub.let_go("reown");
    assert!(stub.becomes_free("job").await);
}

/// Validity counts from before the call that was answered, not from the answer.
#[tokio::test(start_paused = true)]
async fn the_validity_after_an_attach_counts_from_before_the_call() {
    let stub = Stub::new();
    let lock = detached(&stub).await;
    stub.hold("reown");
    let client = stub.client();
    let mut attach = Box::pin(client.attach(&lock));
    assert!((&mut attach).now_or_never().is_none());
    stub.reached("reown", 1).await;
    tokio::time::sleep(4 * SECOND).await;
    stub.let_go("reown");
    let guard = soon("the attach", attach).await.unwrap();
    assert!(guard.remaining() < 6 * SECOND, "{:?}", guard.remaining());
}

/// The owner of a repeated attempt is barred after an attach: a copy of that attempt may still
/// come.
#[tokio::test(start_paused = true)]
async fn a_late_attempt_of_the_former_owner_takes_nothing() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").acquire().await.unwrap();
    let owner = guard.owner();
    let lock = guard.detach().await.unwrap();
    let lock = changed(&lock, r#""doubtful":false"#, r#""doubtful":true"#);
    let client = stub.client();
    let guard = client.attach(&lock).await.unwrap();
    stub.reached("abandon", 1).await;
    guard.release().await.unwrap();
    let (name, label) = (LockName::new("job").unwrap(), OwnerLabel::new("late").unwrap());
    let late = Request::new(name, owner, label, 10 * SECOND, stub.env.now());
    let answer = stub.memory.try_acquire(&late).await.unwrap();
    assert!(answer.granted().is_none(), "a late attempt got the lock");
}

/// A write of the record in the name of the former guard.
#[tokio::test(start_paused = true)]
async fn the_writes_of_the_record_are_counted_on() {
    let stub = Stub::new();
    let guard = stub.client().lock("job").acquire().await.unwrap();
    let former: Grant = guard.grant().clone();
    for value in ["one", "two"] {
        guard.write_record(value, 60 * SECOND).await.unwrap();
    }
    let lock = guard.detach().await.unwrap();
    let guard = stub.client().attach(&carried(&lock)).await.unwrap();
    guard.write_record("three", 60 * SECOND).await.unwrap();
    let read = stub.client().read_record("job").await.unwrap();
    assert_eq!(read.record.unwrap().value, b"three");
    let late = lock_core::RecordWrite::new("late", 60 * SECOND).unwrap().with_number(9);
    let written = stub.memory.write_record(&former, &late).await.unwrap();
    assert_eq!(written, lock_core::WriteOutcome::NotHeld);
}

/// Two tasks of a process wait. The first gets the lock, and its release would carry the request of
/// the second.
#[tokio::test(start_paused = true)]
async fn a_local_waiter_waits_on() {
    let stub = Stub::new();
    let first = held(&stub, "job").await;
    let client = stub.client();
    let waiter = || {
        let client = client.clone();
        tokio::spawn(async move { client.lock("job").acquire().await.unwrap() })
    };
    let one = waiter();
    one_entry_waits(&stub.memory).await;
    let two = waiter();
    tokio::task::yield_now().await;
    first.release().await.unwrap();
    let guard = soon("the first waiter", one).await.unwrap();
    let lock = guard.detach().await.unwrap();
    // No release of this process will carry its request.
    one_entry_waits(&stub.memory).await;
    let guard = stub.client().attach(&lock).await.unwrap();
    tokio::time::sleep(20 * SECOND).await;
    assert!(!two.is_finished() && guard.is_valid());
    let token = guard.token();
    guard.release().await.unwrap();
    let next = soon("the second waiter", two).await.unwrap();
    assert!(next.token() > token);
}
