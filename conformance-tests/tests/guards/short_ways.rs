//! The short ways in front of the scripts of Redis and Redlock, and their batches, repeat what the long ways do. Random
//! states and requests find no difference: the same answer, the same data, the same pushes. Each short way is broken
//! once, and must then be found out.

use std::collections::BTreeMap;

use conformance_tests::kit::{Redis, RedisOptions, Server as _};
use lock_core::{Env as _, SystemEnv};
use redis::{Value, aio::MultiplexedConnection};

use super::{
    raw::{parts, text},
    redis_scripts::server as one,
    redlock::node,
};

const WORLDS: &str = include_str!("short_ways/worlds.lua");
/// How many states are tried; a broken way is found in the first few hundred, as a rule.
const STATES: u64 = 4_000;
/// The short way of free.lua begins so.
const PLAIN: &str = "if ARGV[2] == '' and ARGV[3] == '' and ARGV[4] == '' and ARGV[5] == '' and";

fn function(name: &str, body: &str) -> String {
    format!("local function {name}(redis, KEYS, ARGV)\n{body}\nend\n")
}

/// The part of a script from here on.
fn from(script: &'static str, line: &str) -> &'static str {
    &script[script.find(line).expect("no such line")..]
}

/// The scripts of one server, and random requests to it.
fn redis() -> String {
    let long_release = [one::LIMITS, from(one::RELEASE, "-- unpack_release\n")].join("\n");
    [
        function("acquire", one::ACQUIRE),
        function("long_acquire", from(one::ACQUIRE, "-- unpack_acquire\n")),
        function("release", one::RELEASE),
        function("long_release", &long_release),
        function("batch", one::BATCH),
        WORLDS.to_owned(),
        include_str!("short_ways/redis.lua").to_owned(),
    ]
    .join("\n")
}

/// The same of a node of a quorum.
fn redlock() -> String {
    assert_eq!(node::FREE.matches(PLAIN).count(), 1);
    [
        function("acquire", node::ACQUIRE),
        function("long_acquire", node::ACQUIRE.strip_prefix(node::ACQUIRE_FAST).unwrap()),
        function("free", node::FREE),
        function("long_free", &node::FREE.replace(PLAIN, "if false and")),
        function("batch", node::BATCH),
        WORLDS.to_owned(),
        include_str!("short_ways/redlock.lua").to_owned(),
    ]
    .join("\n")
}

async fn start() -> (Redis, MultiplexedConnection) {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let client = redis::Client::open(format!("redis://{}", server.address())).unwrap();
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let link = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    (server, link)
}

/// The first difference, or how often each kind of request had a short and a long answer.
async fn compare(
    link: &mut MultiplexedConnection,
    script: &str,
    seed: u64,
) -> Result<BTreeMap<[String; 2], u64>, String> {
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(script);
    let hash: String = load.query_async(link).await.unwrap();
    let mut count = BTreeMap::new();
    for seed in seed..seed + STATES {
        let mut run = redis::cmd("EVALSHA");
        run.arg(&hash).arg(0).arg(seed);
        let answer: Value = run.query_async(link).await.map_err(|error| error.to_string())?;
        let [kind, how, difference] = &parts(answer)[..] else { panic!("not an answer") };
        if !text(difference).is_empty() {
            return Err(format!("seed {seed}, {}: {}", text(kind), text(difference)));
        }
        *count.entry([text(kind), text(how)]).or_default() += 1;
    }
    Ok(count)
}

async fn agree(script: &str, kinds: [&str; 5]) {
    let (_server, mut link) = start().await;
    // Other states in each run.
    let seed = SystemEnv.random() as u64 % 1_000_000_000;
    let count = compare(&mut link, script, seed).await.unwrap_or_else(|found| panic!("{found}"));
    for kind in kinds {
        let words = kind.split_once(' ').map(|(kind, how)| [kind.to_owned(), how.to_owned()]);
        let tried = count.get(&words.unwrap()).copied().unwrap_or_default();
        assert!(tried >= STATES / 100, "{kind} was tried {tried} times: {count:?}");
    }
}

#[tokio::test]
async fn the_short_ways_of_redis_do_what_the_long_ones_do() {
    let kinds = ["attempt short", "attempt long", "release short", "release long", "batch short"];
    agree(&redis(), kinds).await;
}

#[tokio::test]
async fn the_short_ways_of_redlock_do_what_the_long_ones_do() {
    let kinds = ["attempt short", "attempt long", "release short", "batch short", "batch short"];
    agree(&redlock(), kinds).await;
}

async fn found_out(script: &str, breaks: &[(&str, &str)]) {
    let (_server, mut link) = start().await;
    for (whole, broken) in breaks {
        assert!(script.contains(whole), "{whole:?} is in no script");
        let found = compare(&mut link, &script.replace(whole, broken), 1).await;
        assert!(found.is_err(), "{whole:?} was broken, and no difference was found");
    }
}

#[tokio::test]
async fn a_short_way_of_redis_that_is_broken_is_found_out() {
    let breaks = [
        ("KEYS[2], KEYS[3], KEYS[5]) == 0 then", "KEYS[2], KEYS[3]) == 0 then"),
        ("or lease * 1000 > longest then return nil", "then return nil"),
        (" or (tonumber(e[6] or 0) or now) >= now then return nil", " then return nil"),
        ("if is_free and #ARGV == 3 and", "if #ARGV == 3 and"),
        ("ARGV[5] ~= '' and redis.call('EXISTS', KEYS[5]) == 0 then", "ARGV[5] ~= '' then"),
        ("(number <= NEAR and NEAR_MS or FAR_MS)", "FAR_MS"),
        ("'PX', own and lease or CLAIM_MS)", "'PX', lease)"),
        ("    call('HDEL', KEYS[4], owner)\n    local", "    local"),
        ("if until_ and until_ + 0 > now and", "if until_ and"),
        ("ARGV[8] + 0 < now\n", "true\n"),
        ("if open and lease * 1000 <= longest\n", "if open\n"),
        ("'%.0f', token + attempts - 1)", "'%.0f', token)"),
        (".. ARGV[6], 'PX', lease, 'NX')", ".. ARGV[6], 'PX', lease)"),
    ];
    found_out(&redis(), &breaks).await;
}

#[tokio::test]
async fn a_short_way_of_redlock_that_is_broken_is_found_out() {
    let breaks = [
        ("(e[6] or 0) + 0 <= now and ARGV[14]", "ARGV[14]"),
        ("and floor < now and ARGV[6]", "and ARGV[6]"),
        ("KEYS[2], KEYS[3], KEYS[4], KEYS[5]) == 0", "KEYS[2], KEYS[5]) == 0"),
        ("math.max((e[7] or 0) + 0, floor)", "floor"),
        ("text, 'top', top, 'clock', stamp)", "text, 'clock', stamp)"),
        ("'PX', ARGV[6], 'NX') then", "'PX', ARGV[6]) then"),
        ("string.match(record, '^%x+ %d+ 0 ')\n    and redis", "true\n    and redis"),
        ("local crowded = (e[8] or 0) + 0 > now", "local crowded = false"),
        ("  and e[5] + 0 <= now and (e[6]", "  and (e[6]"),
        ("if proposed < now - bound or proposed > now + bound then", "if false then"),
        ("ARGV[own + 2] or lease, 'NX')", "ARGV[own + 2] or lease)"),
    ];
    found_out(&redlock(), &breaks).await;
}
