//! Each event reaches the observer once, with its lock and its holder, and the metrics follow.

use std::{sync::Arc, time::Duration};

use leasehold::{
    ErrorKind, Event, LockClient, LossReason, NotAcquired, all, any,
    testing::{Operation, TestStore},
};
use lock_core::test_util::{EventRecorder, RecordedEvent};

const SECOND: Duration = Duration::from_secs(1);

fn recorded(client: LockClient) -> (LockClient, Arc<EventRecorder>) {
    let recorder = Arc::new(EventRecorder::default());
    (client.observed_by(recorder.clone()).unwrap(), recorder)
}

fn of<'a>(events: &'a [RecordedEvent], word: &str) -> Vec<&'a RecordedEvent> {
    events.iter().filter(|event| event.word == word).collect()
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_reported_from_its_request_to_its_release() {
    let (client, recorder) = recorded(TestStore::new().client());
    let guard = client.lock("job").acquire().await.unwrap();
    let token = guard.token().get();
    tokio::time::sleep(5 * SECOND).await;
    guard.release().await.unwrap();
    assert_eq!(recorder.words("job"), ["requested", "acquired", "renewed", "released"]);
    let all = recorder.all();
    assert_eq!(all[0].token, None);
    assert!(all[1..].iter().all(|event| event.token == Some(token)), "{all:?}");
    assert_eq!((all[1].span, &*all[1].about), (Duration::ZERO, ""));
    // Renewed after a quarter to a third of its lease.
    let slack = all[2].span.as_secs_f64() / all[2].lease.as_secs_f64();
    assert!((0.65..0.75).contains(&slack) && all[2].lease == 10 * SECOND, "{all:?}");
    assert_eq!((all[3].span, &*all[3].about), (5 * SECOND, "released"));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_reports_how_long_it_waited_and_that_the_lock_was_pushed() {
    let store = TestStore::new();
    let holder = store.client().lock("job").acquire().await.unwrap();
    let (client, recorder) = recorded(store.client());
    let waiting = client.lock("job").acquire();
    let (waiter, ()) = tokio::join!(waiting, async {
        tokio::time::sleep(3 * SECOND).await;
        holder.release().await.unwrap();
    });
    let event = recorder.until("acquired").await;
    assert_eq!(&*event.about, "pushed");
    assert!(event.span >= 3 * SECOND && event.span < 4 * SECOND, "{event:?}");
    // A release in the background is reported too.
    drop(waiter);
    assert_eq!(recorder.until("released").await.about, "released");
}

#[tokio::test(start_paused = true)]
async fn an_acquire_without_the_lock_reports_why() {
    let store = TestStore::new();
    let _holder = store.client().lock("job").acquire().await.unwrap();
    let (client, recorder) = recorded(store.client());
    let why = || {
        let (all, mut why) = (recorder.all(), Vec::new());
        why.extend(of(&all, "not acquired").iter().map(|event| (event.about.clone(), event.span)));
        assert_eq!(of(&all, "requested").len(), why.len(), "{all:?}");
        why.pop().unwrap()
    };
    assert!(client.lock("job").try_acquire().await.unwrap().guard().is_none());
    assert_eq!(why(), ("busy".to_owned(), Duration::ZERO));
    client.lock("job").wait(Duration::ZERO).acquire().await.unwrap_err();
    assert_eq!(why().0, "busy");
    client.lock("job").wait(2 * SECOND).acquire().await.unwrap_err();
    assert_eq!(why(), ("busy".to_owned(), 2 * SECOND));
    let dropped = tokio::time::timeout(SECOND, client.lock("job").acquire()).await;
    assert!(dropped.is_err());
    assert_eq!(why(), ("cancelled".to_owned(), SECOND));
    store.fail_next(Operation::Acquire, ErrorKind::Auth);
    client.lock("other").acquire().await.unwrap_err();
    assert_eq!(why().0, "failed");
    client.lock("other").lease(Duration::ZERO).acquire().await.unwrap_err();
    assert_eq!(why().0, "failed");
    // No lock.
    let before = recorder.all();
    client.lock("a\nb").acquire().await.unwrap_err();
    assert_eq!(recorder.all(), before);
    assert!(
        before
            .iter()
            .all(|event| NotAcquired::WORDS.contains(&&*event.about) || event.about.is_empty())
    );
}

#[tokio::test(start_paused = true)]
async fn failed_renewals_are_reported_before_the_loss_and_the_guard_warns() {
    let store = TestStore::new();
    let (client, recorder) = recorded(store.client());
    let guard = client.lock("job").acquire().await.unwrap();
    let lease = 10 * SECOND;
    store.set_available(false);
    assert_eq!(guard.renewal_health().failures, 0);
    let left = guard.renewal_failing().await;
    assert!(guard.is_valid());
    assert!(left > lease * 3 / 10 && left < lease / 3 + SECOND / 10, "{left:?}");
    let health = guard.renewal_health();
    assert!(health.failures > 0 && health.confirmed > lease * 6 / 10, "{health:?}");
    assert_eq!(health.remaining, left);
    let first = recorder.until("renewal failed").await;
    assert!(first.span >= lease / 3 && first.lease == lease, "{first:?}");
    assert_eq!(guard.lost().await, LossReason::Unreachable);
    let lost = recorder.until("lock lost").await;
    assert_eq!((&*lost.about, lost.token), ("unreachable", Some(guard.token().get())));
    assert!(lost.span > lease * 9 / 10, "{lost:?}");
    assert_eq!(guard.renewal_failing().await, Duration::ZERO);
    // The clean-up after a loss is no release.
    store.set_available(true);
    drop(guard);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(of(&recorder.all(), "released"), Vec::<&RecordedEvent>::new());
    assert_eq!(of(&recorder.all(), "lock lost").len(), 1);
}

/// A store that hangs gives no answer that could be reported.
#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_reported_once_and_in_time() {
    let store = TestStore::new();
    let (client, recorder) = recorded(store.client());
    let lease = 10 * SECOND;
    let guard = client.lock("job").acquire().await.unwrap();
    store.delay(60 * SECOND);
    guard.lost().await;
    let all = recorder.all();
    let failed = of(&all, "renewal failed");
    assert!(failed[0].span >= lease / 3, "{failed:?}");
    // Sent after a third of the lease, and each sixth.
    assert!((3..=5).contains(&failed.len()), "{failed:?}");
    assert!(failed.windows(2).all(|pair| pair[0].span > pair[1].span), "{failed:?}");
    assert_eq!(failed[0].about, ErrorKind::Timeout.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_confirmed_ends_the_warning() {
    let store = TestStore::new();
    let client = store.client();
    let guard = client.lock("job").acquire().await.unwrap();
    let monitor = guard.monitor();
    store.set_available(false);
    monitor.renewal_failing().await;
    store.set_available(true);
    while monitor.renewal_health().failures > 0 {
        tokio::time::sleep(SECOND / 10).await;
    }
    let health = monitor.renewal_health();
    assert!(health.remaining > 8 * SECOND && health.confirmed < 2 * SECOND, "{health:?}");
    // It waits for the next time, and for ever once the lock is released.
    let again = tokio::time::timeout(3600 * SECOND, monitor.renewal_failing()).await;
    assert!(again.is_err());
    guard.release().await.unwrap();
    assert!(tokio::time::timeout(SECOND, monitor.renewal_failing()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_hold_limit_is_a_loss_without_a_warning() {
    let (client, recorder) = recorded(TestStore::new().client());
    let guard = client.lock("job").hold_at_most(5 * SECOND).acquire().await.unwrap();
    assert_eq!(guard.renewal_failing().await, Duration::ZERO);
    assert_eq!(recorder.until("lock lost").await.about, "hold-limit");
    assert_eq!(of(&recorder.all(), "renewal failed").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_close_and_a_failed_release_are_reported() {
    let store = TestStore::new();
    let (client, recorder) = recorded(store.client());
    let guard = client.lock("job").acquire().await.unwrap();
    store.fail_next(Operation::Release, ErrorKind::Auth);
    guard.release().await.unwrap_err();
    assert_eq!(recorder.until("released").await.about, ErrorKind::Auth.to_string());
    let _guard = client.lock("other").acquire().await.unwrap();
    client.close().await;
    assert_eq!(recorder.words("other"), ["requested", "acquired", "lock lost"]);
    assert_eq!(recorder.until("lock lost").await.about, "closed");
}

/// Each primitive is made of plain locks: no event is missing, and none is reported twice.
#[tokio::test(start_paused = true)]
async fn every_lock_of_every_primitive_is_reported_from_begin_to_end() {
    let (client, recorder) = recorded(TestStore::new().client());
    let locks = || ["a", "b"].map(|name| client.lock(name));
    all(locks()).acquire().await.unwrap().release().await.unwrap();
    let guard = any(locks()).acquire().await.unwrap();
    assert!(all(locks()).wait(SECOND).acquire().await.is_err());
    guard.release().await.unwrap();
    let permits = client.semaphore("permits", 2);
    let two = [permits.clone().acquire().await.unwrap(), permits.clone().acquire().await.unwrap()];
    let third = tokio::spawn(permits.clone().acquire());
    tokio::time::sleep(SECOND).await;
    drop(two);
    third.await.unwrap().unwrap().release().await.unwrap();
    let election = client.election("leader");
    election.campaign().await.unwrap().release().await.unwrap();
    election.run(async |_| ()).await.unwrap().release.unwrap();
    tokio::time::sleep(60 * SECOND).await;
    let events = recorder.all();
    let count = |name: &str, word: &str| {
        events.iter().filter(|event| event.name == name && event.word == word).count()
    };
    for name in ["a", "b", "permits", "permits/0", "permits/1", "leader"] {
        let ends = count(name, "acquired") + count(name, "not acquired");
        assert!(count(name, "acquired") > 0, "{name}: {events:#?}");
        assert_eq!(count(name, "requested"), ends, "{name}: {events:#?}");
        assert_eq!(count(name, "acquired"), count(name, "released"), "{name}: {events:#?}");
    }
    assert_eq!(count("leader", "acquired"), 2);
}

/// Neither the caller nor the task that renews is ended by it.
#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_changes_nothing() {
    let client = TestStore::new().client();
    let panics = Arc::new(|event: &Event<'_>| panic!("{event}"));
    let client = client.observed_by(panics).unwrap();
    let guard = client.lock("job").acquire().await.unwrap();
    tokio::time::sleep(60 * SECOND).await;
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_client_has_one_observer() {
    let store = TestStore::new();
    let (client, _recorder) = recorded(store.client());
    let error = client.clone().observed_by(Arc::new(EventRecorder::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(client.lock("job").acquire().await.is_ok());
}
