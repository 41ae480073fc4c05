//! Re-entry, several locks, semaphores and elections, in simulated time over the store in memory.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt as _, future::join_all};
use lock_core::{
    Backend as _, Blocked, ErrorKind, Leadership, LockClient, LockName, LossReason, TryAcquire,
    all, any,
};

use crate::support::{Lost, Stub};

const SECOND: Duration = Duration::from_secs(1);

/// Whether the name is neither held nor waited for, at once or after a few turns of other tasks.
async fn is_untouched(stub: &Stub, name: &str) -> bool {
    let name = LockName::new(name).unwrap();
    for _ in 0..10_000 {
        let state = stub.memory.inspect(&name).await.unwrap();
        if state.is_none_or(|state| state.holder.is_none() && state.waiting.unwrap_or(0) == 0) {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

#[tokio::test(start_paused = true)]
async fn only_the_last_of_a_holds_guards_releases_it() {
    let stub = Stub::new();
    let first = stub.client().lock("job").acquire().await.unwrap();
    let second = first.reenter().unwrap();
    let third = second.reenter().unwrap();
    assert_eq!((first.token(), first.owner()), (third.token(), third.owner()));
    first.release().await.unwrap();
    drop(second);
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(stub.calls("release"), 0);
    assert_eq!(stub.holder("job").await, Some(third.owner()));
    assert!(third.is_valid());
    third.release().await.unwrap();
    assert_eq!(stub.calls("release"), 1);
    assert_eq!(stub.holder("job").await, None);
}

#[tokio::test(start_paused = true)]
async fn every_guard_of_a_hold_learns_of_its_loss() {
    let stub = Stub::new();
    let first = stub.client().lock("job").hold_at_most(SECOND).acquire().await.unwrap();
    let second = first.reenter().unwrap();
    let cancelled = second.cancellation_token();
    assert_eq!(first.lost().await, LossReason::HoldLimit);
    assert_eq!(second.lost().await, LossReason::HoldLimit);
    assert!(cancelled.is_cancelled());
    assert_eq!(second.reenter().unwrap_err().kind(), ErrorKind::Lost);
    // Not only the last one says so.
    for guard in [first, second] {
        assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    }
}

#[tokio::test(start_paused = true)]
async fn all_are_held_in_the_given_order_or_none_is() {
    let stub = Stub::new();
    let client = stub.client();
    let locks = || ["c", "a", "b"].map(|name| client.lock(name));
    // Answers are held back, so the first is the only one that was asked for.
    stub.hold("acquire");
    let acquire = tokio::spawn(all(locks()).acquire());
    stub.reached("acquire", 1).await;
    assert!(stub.holder("a").await.is_some(), "they are not taken in the order of their names");
    stub.let_go("acquire");
    let guards = acquire.await.unwrap().unwrap();
    let names: Vec<_> = guards.iter().map(|guard| guard.name().to_string()).collect();
    assert_eq!(names, ["c", "a", "b"]);
    assert!(guards.is_valid() && guards.remaining() > SECOND);
    let other = stub.other();
    let error =
        all([other.lock("d"), other.lock("b"), other.lock("0")]).wait(SECOND).acquire().await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains("\"b\""), "{error}");
    assert!(is_untouched(&stub, "0").await && is_untouched(&stub, "d").await);
    guards.release().await.unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(stub.holder(name).await, None, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_while_others_are_waited_for_ends_the_wait() {
    let stub = Stub::new();
    let client = stub.client();
    let busy = stub.other().lock("b").acquire().await.unwrap();
    let short = client.lock("a").hold_at_most(SECOND);
    let error = all([short, client.lock("b")]).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(error.to_string().contains("\"a\""), "{error}");
    busy.release().await.unwrap();
    assert!(is_untouched(&stub, "b").await);
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_of_all_is_told_by_its_place() {
    let stub = Stub::new();
    let client = stub.client();
    let guards =
        all([client.lock("a"), client.lock("b").hold_at_most(SECOND)]).acquire().await.unwrap();
    assert_eq!(guards.lost().await, (1, LossReason::HoldLimit));
    assert!(!guards.is_valid() && guards.remaining().is_zero() && guards[0].is_valid());
    assert_eq!(guards.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(stub.holder("a").await, None);
}

#[tokio::test(start_paused = true)]
async fn all_refuses_no_lock_and_one_lock_twice() {
    let (stub, elsewhere) = (Stub::new(), Stub::new());
    let client = stub.client();
    let twice = all([client.lock("a"), client.lock("b"), client.lock("a")]);
    // Stubs have no identity; their stores in memory have.
    let unknown = all([client.lock("a"), elsewhere.client().lock("a")]);
    let same = all([stub.other().lock("a"), stub.other().lock("a")]);
    for (wrong, part) in [
        (all([]), "at least 1 lock"),
        (twice, "identity"),
        (unknown, "identity"),
        (same, "given twice"),
        (all([client.lock("")]), "bytes"),
    ] {
        let error = wrong.acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(stub.calls("acquire"), 0);
    // Two stores may have locks of one name.
    let both = all([stub.other().lock("a"), elsewhere.other().lock("a")]).acquire().await.unwrap();
    both.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn opposite_orders_both_finish() {
    let (one, two) = (Stub::new(), Stub::new());
    let (here, there) = (one.other(), two.other());
    let rounds = |backwards: bool| {
        let (here, there) = (here.clone(), there.clone());
        async move {
            for _ in 0..200 {
                let mut locks = vec![here.lock("a"), there.lock("a"), here.lock("b")];
                if backwards {
                    locks.reverse();
                }
                let guards = all(locks).acquire().await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
                guards.release().await.unwrap();
            }
        }
    };
    let both = futures_util::future::join(tokio::spawn(rounds(false)), tokio::spawn(rounds(true)));
    let ended = tokio::time::timeout(3_600 * SECOND, both).await.expect("they wait for each other");
    ended.0.unwrap();
    ended.1.unwrap();
}

#[tokio::test(start_paused = true)]
async fn any_takes_the_first_that_is_free_and_touches_no_other() {
    let stub = Stub::new();
    let client = stub.client();
    let busy = stub.other().lock("a").acquire().await.unwrap();
    let guard = any(["a", "b", "c"].map(|name| client.lock(name))).acquire().await.unwrap();
    assert_eq!(guard.name().as_str(), "b");
    assert!(is_untouched(&stub, "c").await);
    assert_eq!(stub.calls("enqueue"), 0);
    drop(busy);
    let error = any([]).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[tokio::test(start_paused = true)]
async fn any_waits_in_every_queue_and_leaves_nothing_in_the_others() {
    let stub = Stub::new();
    let names = ["a", "b", "c", "d"];
    let other = stub.other();
    let mut held = join_all(names.map(|name| other.lock(name).acquire())).await;
    let client = stub.client();
    // A minimum hold counts for the one that is kept, not for one that is given back.
    let locks = names.map(|name| client.lock(name).at_least(20 * SECOND));
    let error = any(locks.clone()).wait(SECOND).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(matches!(error.blocked(), Some(Blocked::Busy(_))), "{error:?}");
    let waiting = tokio::spawn(any(locks).acquire());
    stub.reached("enqueue", 8).await;
    // Two at once: one is kept.
    drop(held.split_off(2));
    let guard = waiting.await.unwrap().unwrap();
    let other = if guard.name().as_str() == "c" { "d" } else { "c" };
    assert!(is_untouched(&stub, other).await, "{other} is kept");
    drop(held);
    assert!(is_untouched(&stub, "a").await && is_untouched(&stub, "b").await);
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_any_leaves_nothing() {
    let stub = Stub::new();
    let held = stub.other().lock("a").acquire().await.unwrap();
    let client = stub.client();
    let mut waiting = Box::pin(any([client.lock("a")]).acquire());
    for _ in 0..100 {
        assert!(waiting.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    stub.reached("enqueue", 1).await;
    drop(waiting);
    drop(held);
    assert!(is_untouched(&stub, "a").await);
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_has_as_many_holders_as_permits_and_no_more() {
    let stub = Stub::new();
    let (inside, most, done) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
    );
    let clients = (0..8).map(|_| {
        let client = stub.other();
        let (inside, most, done) = (inside.clone(), most.clone(), done.clone());
        tokio::spawn(async move {
            for _ in 0..50 {
                let permit = client.semaphore("pool", 3).acquire().await.unwrap();
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
                assert!(permit.is_valid());
                inside.fetch_sub(1, Ordering::SeqCst);
                permit.release().await.unwrap();
                done.fetch_add(1, Ordering::SeqCst);
            }
        })
    });
    let all = tokio::time::timeout(3_600 * SECOND, join_all(clients))
        .await
        .expect("somebody waits for ever");
    all.into_iter().for_each(|client| client.unwrap());
    assert_eq!((most.load(Ordering::SeqCst), done.load(Ordering::SeqCst)), (3, 400));
    for name in ["pool", "pool/0", "pool/1", "pool/2"] {
        assert!(is_untouched(&stub, name).await, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_slot_is_found_for_every_number_of_permits() {
    for permits in [1, 2, 3, 6, 7, 128] {
        let stub = Stub::new();
        let client = stub.other();
        let pool = || client.semaphore("pool", permits).lease(10 * SECOND);
        let mut held = Vec::new();
        for _ in 0..permits {
            held.extend(pool().try_acquire().await.unwrap().guard());
        }
        let mut names: Vec<_> = held.iter().map(|permit| permit.name().to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), permits as usize);
        assert!(matches!(pool().try_acquire().await.unwrap(), TryAcquire::Busy(_)));
        for wait in [Duration::ZERO, SECOND] {
            let error = pool().wait(wait).acquire().await.unwrap_err();
            assert!(matches!(error.blocked(), Some(Blocked::Busy(_))), "{error:?}");
        }
        let freed = held.pop().unwrap();
        let name = freed.name().clone();
        freed.release().await.unwrap();
        assert_eq!(*pool().acquire().await.unwrap().name(), name);
    }
}

#[tokio::test(start_paused = true)]
async fn permits_and_names_of_a_semaphore_are_checked_before_the_store_is_touched() {
    let stub = Stub::new();
    let client = stub.client();
    for (semaphore, part) in [
        (client.semaphore("pool", 0), "permits 0 must be between 1 and 128"),
        (client.semaphore("pool", 129), "permits 129 must be between 1 and 128"),
        (client.semaphore("x".repeat(254), 100), "between 1 and 255"),
        (client.semaphore("pool", 3).lease(Duration::ZERO), "lease 0s must be between"),
    ] {
        for error in
            [semaphore.clone().try_acquire().await.err(), semaphore.clone().acquire().await.err()]
        {
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
    assert_eq!(stub.calls("acquire"), 0);
}

/// The one who waits for the slots is cancelled: the next enters.
#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_for_a_permit_leaves_nothing() {
    let stub = Stub::new();
    let permit = stub.other().semaphore("pool", 1).acquire().await.unwrap();
    let client = stub.client();
    let first = tokio::spawn(client.semaphore("pool", 1).acquire());
    stub.reached("enqueue", 1).await;
    assert!(stub.holder("pool").await.is_some(), "it holds the door");
    let second = tokio::spawn(stub.other().semaphore("pool", 1).acquire());
    tokio::time::sleep(SECOND).await;
    first.abort();
    drop(permit);
    let permit = second.await.unwrap().unwrap();
    assert_eq!(permit.name().as_str(), "pool/0");
    permit.release().await.unwrap();
    assert!(is_untouched(&stub, "pool").await && is_untouched(&stub, "pool/0").await);
}

#[tokio::test(start_paused = true)]
async fn an_election_starts_the_work_again_after_a_loss() {
    let stub = Stub::new();
    let terms = Arc::new(Mutex::new(Vec::new()));
    let seen = terms.clone();
    let election = stub.client().election("chief").lease(2 * SECOND);
    let candidate = tokio::spawn(async move {
        election
            .run(|leadership| {
                let mut terms = seen.lock().unwrap();
                terms.push(leadership.token());
                let term = terms.len();
                async move {
                    if term < 3 {
                        std::future::pending::<()>().await;
                    }
                    term
                }
            })
            .await
    });
    let name = LockName::new("chief").unwrap();
    for term in 1..3 {
        while terms.lock().unwrap().len() < term {
            tokio::time::sleep(SECOND / 10).await;
        }
        stub.memory.force_release(&name).await.unwrap();
    }
    let done = candidate.await.unwrap().unwrap();
    assert_eq!(done.output, 3);
    done.release.unwrap();
    assert!(terms.lock().unwrap().is_sorted_by(|a, b| a < b), "{terms:?}");
    assert_eq!(stub.holder("chief").await, None);
}

#[tokio::test(start_paused = true)]
async fn an_election_ends_with_an_error_that_waiting_cannot_mend() {
    let stub = Stub::new();
    let client = stub.client();
    let error = client.election("").run(|_| async {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    client.close().await;
    let error = client.election("chief").run(|_| async {}).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
}

fn shown(leadership: &Leadership) -> String {
    match leadership {
        Leadership::Held(leader) => leader.term.to_string(),
        Leadership::Vacant => "vacant".into(),
        other => format!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_each_leader_once_and_who_leads_no_more() {
    let stub = Stub::new();
    let election = stub.client().election("chief");
    let mut seen = election.watch(SECOND).unwrap();
    let mut next = async || {
        seen.changed().await.unwrap();
        shown(&seen.borrow_and_update())
    };
    assert_eq!(next().await, "vacant");
    for _ in 0..2 {
        let leader = election.campaign().await.unwrap();
        assert_eq!(next().await, leader.token().to_string());
        tokio::time::sleep(30 * SECOND).await;
        leader.release().await.unwrap();
        assert_eq!(next().await, "vacant");
    }
    for interval in [Duration::ZERO, 3_601 * SECOND] {
        let error = election.watch(interval).unwrap_err();
        assert!(error.to_string().contains("between 10ms and 1h"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_its_client() {
    let stub = Stub::new();
    let client: LockClient = stub.client();
    let mut seen = client.election("chief").watch(SECOND).unwrap();
    client.close().await;
    while seen.changed().await.is_ok() {}
    assert!(client.election("chief").watch(SECOND).is_err());
}

#[tokio::test(start_paused = true)]
async fn any_makes_one_attempt_for_each_where_it_does_not_wait() {
    let stub = Stub::new();
    let client = stub.client();
    let at_once = || any(["a", "b"].map(|name| client.lock(name))).wait(Duration::ZERO);
    // Answers take a while, as over a network.
    stub.hold("acquire");
    let attempt = tokio::spawn(at_once().acquire());
    stub.reached("acquire", 1).await;
    tokio::time::sleep(SECOND).await;
    stub.let_go("acquire");
    let first = attempt.await.unwrap().unwrap();
    assert_eq!(first.name().as_str(), "a");
    let second = at_once().acquire().await.unwrap();
    assert_eq!(second.name().as_str(), "b");
    let error = at_once().acquire().await.unwrap_err();
    assert!(matches!(error.blocked(), Some(Blocked::Busy(_))), "{error:?}");
    assert_eq!(stub.calls("enqueue"), 0);
}

/// A guard that is released while another one ends the hold reports no loss.
#[tokio::test]
async fn guards_of_one_hold_that_are_released_at_once_report_no_loss() {
    let client = LockClient::new(Arc::new(lock_core::Memory::new()));
    let (start, runtime) = (std::sync::Barrier::new(2), tokio::runtime::Handle::current());
    for _ in 0..5_000 {
        let first = client.lock("job").acquire().await.unwrap();
        let second = first.reenter().unwrap();
        let release = |guard: lock_core::Guard| {
            let _context = runtime.enter();
            start.wait();
            guard.release().now_or_never().expect("the store answers at once").unwrap();
        };
        std::thread::scope(|threads| {
            threads.spawn(|| release(first));
            release(second);
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_permit_ends_in_time_though_the_store_hangs() {
    let stub = Stub::new();
    stub.hold("acquire");
    let asked = tokio::time::Instant::now();
    let error = stub.client().semaphore("pool", 3).wait(2 * SECOND).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(asked.elapsed(), 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn all_that_fails_keeps_nothing_for_a_minimum_hold() {
    let stub = Stub::new();
    let _busy = stub.other().lock("b").acquire().await.unwrap();
    let client = stub.client();
    let both = || {
        let kept = client.lock("a").at_least(20 * SECOND);
        all([kept, client.lock("b")]).wait(SECOND)
    };
    both().acquire().await.unwrap_err();
    assert!(is_untouched(&stub, "a").await);
    let cancelled = tokio::time::timeout(SECOND / 2, both().acquire()).await;
    assert!(cancelled.is_err() && is_untouched(&stub, "a").await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_does_not_keep_its_client_alive() {
    let stub = Stub::new();
    let client = stub.client();
    let mut seen = client.election("chief").watch(3_600 * SECOND).unwrap();
    seen.changed().await.unwrap();
    drop(client);
    let ended = tokio::time::timeout(60 * SECOND, seen.changed()).await;
    assert!(ended.expect("it goes on without a client").is_err());
    assert_eq!(Arc::strong_count(&stub), 1, "the store is kept");
}

/// A client that dies at the door: nothing that it sends arrives any more.
#[tokio::test(start_paused = true)]
async fn a_dead_client_at_the_door_delays_the_others_by_less_than_its_lease() {
    let stub = Stub::new();
    let pool = |client: &LockClient| client.semaphore("pool", 1).lease(30 * SECOND);
    let permit = pool(&stub.other()).acquire().await.unwrap();
    let client = stub.client();
    let waiting = tokio::spawn(pool(&client).acquire());
    stub.reached("enqueue", 1).await;
    tokio::time::sleep(20 * SECOND).await;
    assert!(stub.holder("pool").await.is_some(), "a live client keeps the door");
    for operation in ["acquire", "enqueue", "renew", "release"] {
        stub.cut(operation);
    }
    permit.release().await.unwrap();
    let newcomer = pool(&stub.other()).wait(10 * SECOND).acquire().await;
    assert_eq!(newcomer.unwrap().name().as_str(), "pool/0");
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_nothing_that_is_older_than_it_says() {
    let stub = Stub::new();
    let election = stub.client().election("chief");
    let leader = election.campaign().await.unwrap();
    let mut seen = election.watch(2 * SECOND).unwrap();
    for _ in 0..3 {
        let held = |now: &Leadership| matches!(now, Leadership::Held(_));
        seen.wait_for(held).await.unwrap();
        stub.hold("inspect");
        let hangs = tokio::time::Instant::now();
        seen.changed().await.unwrap();
        assert!(matches!(*seen.borrow(), Leadership::Unknown(_)), "{:?}", *seen.borrow());
        assert!(hangs.elapsed() <= 2 * SECOND, "only after {:?}", hangs.elapsed());
        stub.let_go("inspect");
    }
    leader.release().await.unwrap();
    let released = tokio::time::Instant::now();
    seen.wait_for(|now| *now == Leadership::Vacant).await.unwrap();
    assert!(released.elapsed() <= 2 * SECOND, "only after {:?}", released.elapsed());
}

#[tokio::test(start_paused = true)]
async fn all_that_a_busy_lock_has_delayed_says_busy() {
    let stub = Stub::new();
    let busy = stub.other().lock("a").acquire().await.unwrap();
    let client = stub.client();
    let both = all(["a", "b"].map(|name| client.lock(name))).wait(2 * SECOND).acquire();
    let waiting = tokio::spawn(both);
    stub.reached("enqueue", 1).await;
    tokio::time::sleep(2 * SECOND - SECOND / 50).await;
    // The answer for `b` does not come in the little time that is left.
    stub.hold("acquire");
    busy.release().await.unwrap();
    let before = stub.calls("acquire");
    let error = waiting.await.unwrap().unwrap_err();
    assert!(stub.calls("acquire") > before, "`b` was asked for");
    assert!(error.is_busy(), "{error:?}");
    assert!(error.to_string().contains("\"a\""), "{error}");
    // A store that had the whole time, and does not answer, is another matter.
    let error = all([client.lock("c")]).wait(2 * SECOND).acquire().await.unwrap_err();
    assert!(!error.is_not_acquired(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_permit_that_ends_between_two_answers_says_busy() {
    let stub = Stub::new();
    let other = stub.other();
    let _held = join_all((0..2).map(|_| other.semaphore("pool", 2).acquire())).await;
    // One answer comes.
    stub.shut.store(true, Ordering::SeqCst);
    stub.open.notify_one();
    let error = stub.client().semaphore("pool", 2).wait(SECOND).acquire().await.unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    assert_eq!(stub.calls("acquire"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_began_while_the_store_was_away_says_what_it_found_then() {
    let stub = Stub::new();
    let other = stub.other();
    let _held = other.semaphore("pool", 1).acquire().await.unwrap();
    let client = stub.client();
    let one = any([client.lock("pool/0")]).wait(10 * SECOND);
    let permit = client.semaphore("pool", 1).wait(10 * SECOND);
    stub.down.store(true, Ordering::SeqCst);
    let waiting = (tokio::spawn(one.acquire()), tokio::spawn(permit.acquire()));
    tokio::time::sleep(2 * SECOND).await;
    stub.down.store(false, Ordering::SeqCst);
    for waiting in [waiting.0, waiting.1] {
        let error = waiting.await.unwrap().unwrap_err();
        assert!(error.is_busy(), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_fails_does_not_hide_one_that_is_free() {
    let stub = Stub::new();
    let client = stub.client();
    let pool = || client.semaphore("pool", 3);
    stub.lose("acquire", Lost::Request);
    stub.lose("acquire", Lost::Request);
    let permit = pool().try_acquire().await.unwrap().guard().expect("one is free");
    assert_eq!(stub.calls("acquire"), 3);
    // Not every slot is known to be busy.
    let other = stub.other();
    let _rest = join_all((0..2).map(|_| other.semaphore("pool", 3).acquire())).await;
    stub.lose("acquire", Lost::Request);
    let error = pool().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(matches!(pool().try_acquire().await.unwrap(), TryAcquire::Busy(_)));
    drop(permit);
    // A store that hangs is not asked for every slot.
    stub.hold("acquire");
    let asked = tokio::time::Instant::now();
    client.semaphore("other", 128).try_acquire().await.unwrap_err();
    assert!(asked.elapsed() <= 10 * SECOND, "only after {:?}", asked.elapsed());
}
