//! Locks that very many readers share.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{Backend, Grant, Mode, ReleaseOptions, Request, Signal};
use servers::{Clock, RedisOptions};
use verification::missing_guards::{
    Setup as _,
    redis::{owner, text},
};

use crate::{
    missing_guards::server::{RELEASE, Server},
    support::{busy, calls, connect, enqueued, granted, renewed, request, server_with, url},
};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(60);

fn reader(lease: Duration) -> Request {
    request("a", lease).with_mode(Mode::Shared)
}

/// Lets this many readers in.
async fn inside(store: &dyn Backend, count: usize) -> Vec<Grant> {
    let requests: Vec<_> = (0..count).map(|_| reader(LONG)).collect();
    let mut grants = Vec::new();
    // The last of a thousand at once would wait for all of them, within its time limit.
    for some in requests.chunks(50) {
        grants.extend(join_all(some.iter().map(|request| granted(store, request))).await);
    }
    grants
}

#[tokio::test]
async fn a_reader_that_died_makes_room_at_the_limit() {
    let clock = Clock::new().await.unwrap();
    let server = server_with(RedisOptions::new().clock(&clock)).await;
    let store = connect(&url(&server)).await;
    let others = inside(&*store, Mode::MOST_READERS - 1).await;
    // It never renews.
    granted(&*store, &reader(SHORT)).await;
    let late = reader(LONG);
    busy(&*store, &late).await;

    clock.step(SHORT.as_secs_f64() + 1.0).unwrap();
    // A new client, whose attempts are not late by the new clock.
    let store = connect(&url(&server)).await;
    let joined = granted(&*store, &late).await;
    assert_eq!(joined.token, others[0].token);
    busy(&*store, &reader(LONG)).await;
}

#[tokio::test]
async fn a_reader_that_leaves_at_the_limit_lets_the_first_waiting_one_in() {
    let server = server_with(RedisOptions::new()).await;
    let store = connect(&url(&server)).await;
    let others = inside(&*store, Mode::MOST_READERS).await;
    let (mut waiter, _) = enqueued(&*store, &reader(LONG)).await;
    store.release(&others[0], ReleaseOptions::default()).await.unwrap();
    let told = tokio::time::timeout(SOON, waiter.next()).await.unwrap();
    assert!(matches!(told, Signal::Granted(_)), "{told:?}");
}

/// The server stands still during a release, and its file grows by what the release writes. It is
/// measured without a client: the readers enter the queue and get in within one script, so that no
/// place grows old meanwhile.
#[tokio::test]
async fn a_release_to_many_readers_writes_the_record_once() {
    const CROWD: &str = "
        for at = 1, 1000 do
          local owner = string.format('%032x', at)
          redis.call('RPUSH', KEYS[3], owner)
          redis.call('HSET', KEYS[4], owner, (redis.call('TIME')[1] + 2) .. '000000 r 20000 0 channel reader')
        end
    ";
    let mut server = Server::start(&[]).await;
    server.taken("a").await.unwrap();
    let keys = server.keys("a");
    let mut arguments = server.in_time();
    arguments.push(owner("a"));
    arguments.extend([""; 7].map(str::to_owned));
    let before = sets(&mut server).await;
    let released = server.eval(&[CROWD, &RELEASE].concat(), &keys, &arguments).await;
    assert_eq!(text(&released), "1");
    let record = server.record().await;
    let inside = record.lines().nth(1).map_or(0, |line| line.split_whitespace().count());
    assert_eq!(inside, Mode::MOST_READERS);
    assert_eq!(sets(&mut server).await - before, 1, "the record was written again and again");
}

/// A script that read the record for each of them would hold up the server.
#[tokio::test]
async fn a_batch_of_readers_reads_their_record_once() {
    const MANY: usize = 200;
    let server = server_with(RedisOptions::new()).await;
    let store = connect(&url(&server)).await;
    let grants = inside(&*store, MANY).await;
    let before = calls(&server, "get").await;
    renewed(&*store, &grants.iter().collect::<Vec<_>>()).await;
    assert_eq!(calls(&server, "get").await - before, 1, "it was read again and again");
}

async fn sets(server: &mut Server) -> u64 {
    let stats = text(&server.say(&["INFO", "commandstats"]).await);
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_set:calls="));
    calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
}
