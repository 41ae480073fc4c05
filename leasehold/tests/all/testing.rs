//! The store for users' tests: each fault that a test plants, as the user's code sees it.

use std::time::Duration;

use leasehold::{
    Blocked, ClientOptions, ErrorKind, LockName, LossReason, TryAcquire,
    testing::{Operation, TestStore},
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_held_for_hours_that_take_no_time() {
    let client = TestStore::new().client();
    let guard = client.lock("job").acquire().await.unwrap();
    let began = std::time::Instant::now();
    tokio::time::sleep(HOUR * 24).await;
    assert!(guard.is_valid());
    assert!(began.elapsed() < Duration::from_secs(600));
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_lost_before_the_call_returns_and_no_other_is() {
    let store = TestStore::new();
    let client = store.client();
    let guard = client.lock("job").acquire().await.unwrap();
    let other = client.lock("other").acquire().await.unwrap();
    assert!(!store.lose(&name("nobody's")));
    assert!(guard.is_valid());
    assert!(store.lose(&name("job")));
    assert!(!guard.is_valid());
    assert_eq!(guard.lost().await, LossReason::Gone);
    assert!(!store.lose(&name("job")));
    tokio::time::sleep(HOUR).await;
    assert!(other.is_valid());
    // Another process may have it now, with a higher token.
    let next = store.client().lock("job").acquire().await.unwrap();
    assert!(next.token() > guard.token());
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_goes_to_the_waiter() {
    let store = TestStore::new();
    let guard = store.client().lock("job").acquire().await.unwrap();
    let (first, second) = (store.client(), store.client());
    let waiting = tokio::spawn(async move { first.lock("job").acquire().await });
    tokio::time::sleep(SECOND).await;
    assert!(store.lose(&name("job")));
    assert_eq!(guard.lost().await, LossReason::TakenOver);
    let taken = waiting.await.unwrap().unwrap();
    tokio::time::sleep(HOUR).await;
    assert!(taken.is_valid());
    assert!(matches!(second.lock("job").try_acquire().await.unwrap(), TryAcquire::Busy(_)));
}

#[tokio::test(start_paused = true)]
async fn refused_attempts_are_busy_and_waiters_try_again() {
    let store = TestStore::new();
    let client = store.client();
    store.refuse_next(1);
    assert!(matches!(client.lock("job").try_acquire().await.unwrap(), TryAcquire::Busy(_)));
    store.refuse_next(1);
    let error = client.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
    assert!(matches!(error.blocked(), Some(Blocked::Busy(_))), "{error}");
    store.refuse_next(2);
    store.refuse_next(3);
    let began = tokio::time::Instant::now();
    client.lock("job").wait(HOUR).acquire().await.unwrap().release().await.unwrap();
    let waited = began.elapsed();
    assert!(waited >= SECOND / 10 && waited < SECOND * 5, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_fails_once_with_the_error_that_the_test_chose() {
    let store = TestStore::new();
    let client = store.client();
    store.fail_next(Operation::Acquire, ErrorKind::Auth);
    let error = client.lock("job").acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.backend()), (ErrorKind::Auth, Some("test")));
    // Of another operation: it is not met by this.
    store.fail_next(Operation::Release, ErrorKind::Config);
    let guard = client.lock("job").acquire().await.unwrap();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Config);

    // The client tries these again.
    let guard = client.lock("other").acquire().await.unwrap();
    store.fail_next(Operation::Renew, ErrorKind::Unavailable);
    tokio::time::sleep(HOUR).await;
    assert!(guard.is_valid());
    store.fail_next(Operation::Release, ErrorKind::Unavailable);
    guard.release().await.unwrap();
    let state = client.backend().inspect(&name("other")).await.unwrap();
    assert!(state.is_none_or(|state| state.holder.is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_a_store_that_is_gone_is_lost_when_its_lease_ends() {
    let store = TestStore::new();
    let client = store.client();
    let guard = client.lock("job").lease(SECOND * 20).acquire().await.unwrap();
    store.set_available(false);
    let began = tokio::time::Instant::now();
    let error = client.lock("other").wait(SECOND).acquire().await.unwrap_err();
    assert!(format!("{error:#}").contains("made the store unavailable"), "{error:#}");
    assert!(guard.is_valid());
    assert_eq!(guard.lost().await, LossReason::Unreachable);
    assert!(began.elapsed() <= SECOND * 20, "{:?}", began.elapsed());
    store.set_available(true);
    client.lock("job").wait(HOUR).acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_takes_its_time_and_a_slower_one_is_given_up() {
    let store = TestStore::new();
    let options: ClientOptions = toml::from_str("call_timeout = '3s'").unwrap();
    let client = store.client_with(options).unwrap();
    store.delay(SECOND);
    let began = tokio::time::Instant::now();
    let guard = client.lock("job").acquire().await.unwrap();
    assert!(began.elapsed() >= SECOND, "{:?}", began.elapsed());
    tokio::time::sleep(HOUR).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    store.delay(SECOND * 4);
    let error = client.lock("job").try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    store.delay(Duration::ZERO);
    client.lock("job").wait(HOUR).acquire().await.unwrap().release().await.unwrap();
    let bad: ClientOptions = toml::from_str("call_timeout = '0s'").unwrap();
    assert_eq!(store.client_with(bad).unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// Without a paused clock the store is as any other.
#[tokio::test]
async fn it_works_in_real_time_too() {
    let store = TestStore::new();
    let guard = store.client().lock("job").acquire().await.unwrap();
    assert!(store.lose(&name("job")));
    assert_eq!(guard.lost().await, LossReason::Gone);
}
