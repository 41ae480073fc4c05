//! The heartbeats of queue entries, and what happens to entries without them.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{Attempt, Backend, Busy, Grant, ReleaseOptions, Request, Waiter};
use servers::{Clock, Data, Redis, RedisOptions, Server as _};

use crate::support::{calls, connect, enqueued, granted, name, request, server, server_with, url};

/// Longer than the clock is stepped.
const LEASE: Duration = Duration::from_secs(25);

/// Holds this many names, and makes a queue entry of the same client for each.
async fn waiting(
    store: &dyn Backend,
    names: usize,
) -> (Vec<Grant>, Vec<Request>, Vec<Box<dyn Waiter>>) {
    let names: Vec<_> = (0..names).map(|number| format!("job {number}")).collect();
    let held = names.iter().map(|name| async { granted(store, &request(name, LEASE)).await });
    let held: Vec<_> = join_all(held).await;
    let requests: Vec<_> = names.iter().map(|name| request(name, LEASE)).collect();
    let turns = join_all(requests.iter().map(|request| enqueued(store, request))).await;
    (held, requests, turns.into_iter().map(|(turn, _)| turn).collect())
}

/// Sends the heartbeats of all these entries at the same time.
async fn heartbeats(store: &dyn Backend, requests: &[Request]) -> Vec<Busy> {
    let asked = requests.iter().map(|request| async {
        match store.try_acquire(request).await.unwrap() {
            Attempt::Busy(busy) => busy,
            other => panic!("{other:?}"),
        }
    });
    join_all(asked).await
}

#[tokio::test]
async fn the_heartbeats_of_a_client_share_few_calls() {
    const NAMES: usize = 1_000;
    let server = server().await;
    let store = connect(&url(&server)).await;
    let (held, requests, _turns) = waiting(&*store, NAMES).await;
    heartbeats(&*store, &requests[..1]).await;
    let before = calls(&server, "evalsha").await;
    let answers = heartbeats(&*store, &requests).await;
    let scripts = calls(&server, "evalsha").await - before;
    assert!((1..=20).contains(&scripts), "{scripts} scripts for {NAMES} entries");
    for (busy, grant) in answers.iter().zip(&held) {
        let holder = busy.holder.as_ref().unwrap();
        assert_eq!((holder.owner, busy.token), (grant.owner, grant.token));
        assert!(holder.remaining > LEASE / 2 && holder.remaining <= LEASE);
        assert!(busy.retry_after <= store.guarantees().longest_poll);
    }
}

#[tokio::test]
async fn a_heartbeat_seldom_reads_the_lock_and_finds_a_lost_push() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let (held, requests, _turns) = waiting(&*store, 1).await;
    let first = heartbeats(&*store, &requests).await.remove(0);
    let looks = async || calls(&server, "mget").await;
    let before = looks().await;
    for _ in 0..20 {
        let again = heartbeats(&*store, &requests).await.remove(0);
        assert_eq!(again.token, first.token);
        assert!(again.holder.unwrap().remaining <= first.holder.as_ref().unwrap().remaining);
    }
    let looked = looks().await - before;
    assert!(looked < 20, "it was looked at in each of {looked} heartbeats");
    store.release(&held[0], ReleaseOptions::default()).await.unwrap();
    assert!(granted(&*store, &requests[0]).await.token > held[0].token);
}

/// The order of two entries after the server's clock went on while nobody was heard of: which of
/// them was served.
async fn served_after(server: &Redis, clock: &Clock, stall: Duration) -> Option<usize> {
    let [one, two] = [connect(&url(server)).await, connect(&url(server)).await];
    let held = granted(&*one, &request("a", LEASE)).await;
    let waiters = [request("a", LEASE), request("a", LEASE)];
    let _first = enqueued(&*one, &waiters[0]).await;
    let _second = enqueued(&*two, &waiters[1]).await;
    clock.step(stall.as_secs_f64()).unwrap();
    one.release(&held, ReleaseOptions::default()).await.unwrap();
    let state = one.inspect(&name("a")).await.unwrap();
    let holder = state.and_then(|state| state.holder)?;
    waiters.iter().position(|waiter| waiter.owner == holder.owner)
}

#[tokio::test]
async fn a_stall_shorter_than_an_entrys_life_keeps_the_order_and_a_longer_one_may_not() {
    let clock = Clock::new().await.unwrap();
    let server = server_with(RedisOptions::new().clock(&clock)).await;
    clock.stop().unwrap();
    let promised = connect(&url(&server)).await.guarantees();
    assert!(promised.fair);
    let (kept, poll) = (promised.longest_stall, promised.longest_poll);
    assert_eq!(served_after(&server, &clock, kept).await, Some(0));
    server.cli(&["FLUSHALL"]).await.unwrap();
    crate::support::first_use(&*connect(&url(&server)).await).await;
    let lost = kept + poll + Duration::from_secs(1);
    assert_eq!(served_after(&server, &clock, lost).await, None, "both entries were alive");
}

/// How often the text of a script was sent, besides the short one with which each connection
/// begins.
async fn texts(server: &Redis, connections: usize) -> u64 {
    calls(server, "eval").await - connections as u64
}

/// Each call would send kilobytes.
#[tokio::test]
async fn after_a_restart_the_text_of_a_script_is_sent_once_on_each_connection() {
    const CALLS: usize = 500;
    let mut server = server().await;
    let stores = [connect(&url(&server)).await, connect(&url(&server)).await];
    let ask = async |store: &dyn Backend| {
        // Each request makes a queue entry, so each needs its own script call.
        let asked: Vec<_> = (0..CALLS).map(|at| request(&format!("job {at}"), LEASE)).collect();
        let mut done = 0;
        for answer in join_all(asked.iter().map(|request| store.enqueue(request))).await {
            done += usize::from(answer.is_ok());
        }
        done
    };
    assert_eq!(ask(&*stores[0]).await, CALLS);
    let run = server.info("run_id").await.unwrap();
    server.restart(Data::Lose).await.unwrap();
    assert_ne!(server.info("run_id").await.unwrap(), run);
    for (number, store) in stores.iter().enumerate() {
        // The old connection may end under the first calls.
        while store.clock_difference_micros().await.is_err() {
            tokio::task::yield_now().await;
        }
        assert_eq!(texts(&server, number + 1).await, 2 * number as u64);
        assert_eq!(ask(&**store).await, CALLS);
    }
    // The second connection finds the scripts that the first one has brought: that of a first use,
    // and that of an attempt.
    assert_eq!(texts(&server, 2).await, 2);
    assert!(calls(&server, "evalsha").await >= 2 * CALLS as u64);
    // It is brought again where the server forgets it.
    server.cli(&["SCRIPT", "FLUSH"]).await.unwrap();
    assert_eq!(ask(&*stores[0]).await, CALLS);
    assert!((3..=4).contains(&texts(&server, 2).await), "it was not brought once more");
}
