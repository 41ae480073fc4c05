//! Tests of what docs/backends/foreign.md says.

use std::time::Duration;

use lock_core::{
    Attempt, Enqueued, Env as _, ErrorKind, FencingToken, Init, LockClient, ReleaseOptions, Signal,
    SystemEnv,
};
use servers::{Redis, RedisCluster, RedisOptions, Server as _};
use verification::missing_guards::cases::{LONG, granted, request};

#[path = "../../../backend-redis/tests/all/support/permissions.rs"]
pub(crate) mod permissions;

use self::permissions::{OF_THE_CRATE, commands_of, documented_acl, of_scripts};
use crate::operations;

const PAGE: &str = include_str!("../../../docs/backends/foreign.md");

/// The code block of the page that begins with this line.
fn block(beginning: &str) -> String {
    let lines = PAGE.lines().skip_while(|line| !line.starts_with(beginning));
    let lines: Vec<_> = lines.take_while(|line| *line != "```").map(str::trim).collect();
    assert!(!lines.is_empty(), "the page has no {beginning}");
    lines.join("\n")
}

#[tokio::test]
async fn the_documented_permissions_are_enough() {
    let acl = documented_acl(PAGE, "## Permissions", "");
    // Its own scripts, and what the client and the common scripts of backend-redis need for one
    // server.
    let mut needed = of_scripts(concat!(env!("CARGO_MANIFEST_DIR"), "/src/redis"));
    needed.extend(OF_THE_CRATE.map(str::to_owned));
    let common = "info time ping eval evalsha scan hmget hset hdel hget";
    needed.extend(common.split(' ').map(str::to_owned));
    assert_eq!(commands_of(&acl), needed);
    let server = Redis::start(RedisOptions::new().line(acl)).await.unwrap();
    for layout in ["redisson", "redis-py", "python-redis-lock"] {
        let url = format!("redis://app:hunter2@{}?layout={layout}", server.address());
        let store = backend_foreign::connect(&url).await.unwrap();
        store.init(&Init::new().with_first_use(true)).await.unwrap();
        operations::use_each(&*store).await;
        let grant = granted(&*store, &request("job", LONG)).await.unwrap();
        let Enqueued::Waiting(mut waiter, _) = store.enqueue(&request("job", LONG)).await.unwrap()
        else {
            panic!("two holders");
        };
        store.release(&grant, ReleaseOptions::default()).await.unwrap();
        if store.guarantees().push {
            let signal = tokio::time::timeout(LONG, waiter.next()).await.unwrap();
            assert!(matches!(signal, Signal::Recheck), "{signal:?}");
        }
        waiter.leave().await.unwrap();
    }
    assert_eq!(server.cli(&["ACL", "DRYRUN", "app", "UNSUBSCRIBE"]).await.unwrap().trim(), "OK");
    assert_eq!(server.cli(&["ACL", "LOG"]).await.unwrap().trim(), "", "something was refused");
    let refused = server.cli(&["ACL", "DRYRUN", "app", "FLUSHALL"]).await.unwrap();
    assert!(refused.contains("no permissions"), "{refused}");
}

/// A foreign client that continues counting as the page says gets tokens between those of leasehold
/// clients.
#[tokio::test]
async fn foreign_clients_may_continue_the_count_of_tokens() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("redis://{}?layout=redis-py", server.address());
    let store = backend_foreign::connect(&url).await.unwrap();
    store.init(&Init::new().with_first_use(true)).await.unwrap();
    let script = block("local time");
    for (name, key) in [("a", "leasehold_token:{a}"), ("{b}c", "leasehold_token:{b}c")] {
        let mut last = 0;
        for _ in 0..5 {
            let mut wanted = request(name, LONG);
            // So far ahead of the clock that only the stored token can give the next one.
            wanted.floor = FencingToken::new(SystemEnv.wall_micros() + 5_000_000).unwrap();
            let grant = granted(&*store, &wanted).await.unwrap();
            assert!(grant.token.get() > last, "{} came after {last}", grant.token);
            store.release(&grant, ReleaseOptions::default()).await.unwrap();
            let theirs = server.cli(&["EVAL", &script, "1", key]).await.unwrap();
            last = theirs.trim().parse().unwrap();
            assert!(last > grant.token.get(), "{last} came after {}", grant.token);
        }
    }
}

/// The page's table of layouts.
#[tokio::test]
async fn each_layout_keeps_the_lock_where_the_page_says() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    for (layout, key, kind) in [
        ("redisson", "1", "hash"),
        ("redis-py", "2", "string"),
        ("redsync", "3", "string"),
        ("node-redlock", "4", "string"),
        ("python-redis-lock", "lock:5", "string"),
        ("spring&registry=KEY", "KEY:6", "string"),
        ("shedlock", "job-lock:default:7", "string"),
        ("shedlock&env=eu", "job-lock:eu:8", "string"),
        ("string&key=locks:{name}", "locks:9", "string"),
    ] {
        let url = format!("redis://{}?layout={layout}", server.address());
        let store = backend_foreign::connect(&url).await.unwrap();
        store.init(&Init::new().with_first_use(true)).await.unwrap();
        let name = key.rsplit(':').next().unwrap();
        granted(&*store, &request(name, LONG)).await.unwrap();
        assert_eq!(server.cli(&["TYPE", key]).await.unwrap().trim(), kind, "{layout}");
        let word = layout.split('&').next().unwrap();
        assert!(PAGE.contains(&format!("`{word}`")), "the page does not name {word}");
    }
}

#[tokio::test]
async fn a_shared_lock_is_refused() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("redis://{}?layout=redisson", server.address());
    let store = backend_foreign::connect(&url).await.unwrap();
    let shared = request("a", Duration::from_secs(5)).with_mode(lock_core::Mode::Shared);
    let error = store.try_acquire(&shared).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(!store.guarantees().shared.holds());
}

/// The numbers before ` ms` in a text.
fn millis(text: &str) -> Vec<u64> {
    let words: Vec<_> = text.split(' ').collect();
    let before =
        |unit: &str| words.iter().position(|word| word.trim_end_matches([',', ';']) == unit);
    let end = before("ms").unwrap_or_else(|| panic!("{text:?} names no ms"));
    words[..end].iter().filter_map(|word| word.parse().ok()).collect()
}

/// The page's table of pauses.
#[tokio::test]
async fn waiters_poll_as_often_as_the_page_says() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let table = PAGE.lines().skip_while(|line| !line.starts_with("| layout | our waiters ask"));
    let rows: Vec<Vec<_>> = table
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), 8, "{rows:?}");
    for row in rows {
        let [layout, ours, _, rest] = row[..] else { panic!("{row:?}") };
        let layout = layout.trim_matches('`');
        let (key, option) = match layout {
            "python-redis-lock" => ("lock:a", ""),
            "spring" => ("KEY:a", "&registry=KEY"),
            "shedlock" => ("job-lock:default:a", ""),
            "string" => ("a", "&key={name}"),
            _ => ("a", ""),
        };
        let url = format!("redis://{}?layout={layout}{option}", server.address());
        let store = backend_foreign::connect(&url).await.unwrap();
        store.init(&Init::new().with_first_use(true)).await.unwrap();
        let holds: &[&str] = match layout {
            "redisson" => &["HSET", key, "theirs:1", "1"],
            _ => &["SET", key, "theirs"],
        };
        server.cli(holds).await.unwrap();
        let [least, most] = millis(ours)[..] else { panic!("{layout}: {ours}") };
        for _ in 0..20 {
            let Attempt::Busy(busy) = store.try_acquire(&request("a", LONG)).await.unwrap() else {
                panic!("{layout}: two holders");
            };
            let pause = busy.retry_after.as_millis();
            assert!((least.into()..=most.into()).contains(&pause), "{layout}: {pause} ms");
        }
        let promised = store.guarantees();
        assert_eq!(promised.push, ours.starts_with("by "), "{layout}");
        // A rest may precede the last pause.
        let rest = millis(rest)[0];
        assert_eq!(promised.longest_poll, Duration::from_millis(most + rest), "{layout}");
        server.cli(&["DEL", key]).await.unwrap();
    }
}

/// How often the server has received each of these commands.
async fn sent<const N: usize>(server: &Redis, commands: [&str; N]) -> [u64; N] {
    let stats = server.cli(&["INFO", "commandstats"]).await.unwrap();
    commands.map(|command| {
        let field = format!("cmdstat_{command}:calls=");
        let value = stats.lines().find_map(|line| line.strip_prefix(&field)?.split(',').next());
        value.map_or(0, |value| value.parse().unwrap())
    })
}

/// As the page says about the cost.
#[tokio::test]
async fn a_free_lock_costs_two_scripts() {
    const PAIRS: u64 = 20;
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    for layout in ["redisson", "redis-py"] {
        // A long time limit and lease, so that a busy machine neither repeats nor renews.
        let url = format!("redis://{}?layout={layout}&timeout=30s", server.address());
        let store = backend_foreign::connect(&url).await.unwrap();
        store.init(&Init::new().with_first_use(true)).await.unwrap();
        let client = LockClient::new(store);
        // After this the server knows the scripts.
        client.lock("first").acquire().await.unwrap().release().await.unwrap();
        let before = sent(&server, ["evalsha", "eval", "subscribe"]).await;
        for name in 0..PAIRS {
            let lock = client.lock(format!("free {name}")).lease(Duration::from_secs(30));
            let guard = lock.acquire().await.unwrap();
            guard.release().await.unwrap();
        }
        let after = sent(&server, ["evalsha", "eval", "subscribe"]).await;
        let [scripts, eval, subscribe] = [0, 1, 2].map(|at| after[at] - before[at]);
        assert_eq!([scripts, eval, subscribe], [2 * PAIRS, 0, 0], "{layout}");
    }
}

/// With any URL: in a cluster Redisson wakes by another kind of message, and a replica may take
/// over.
#[tokio::test]
async fn a_cluster_is_refused() {
    let cluster = RedisCluster::start(3, 0, RedisOptions::new()).await.unwrap();
    let node = cluster.nodes()[0].address();
    for (scheme, kind, part) in [
        ("redis", ErrorKind::Config, "part of a cluster"),
        ("redis+cluster", ErrorKind::InvalidInput, "must be one server"),
    ] {
        let url = format!("{scheme}://{node}?layout=redisson");
        let error = backend_foreign::connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{url}: {error}");
        assert!(error.to_string().contains(part), "{url}: {error}");
    }
}
