//! Tests of `verification::missing_guards`: it must tell apart a variant that is caught, one that
//! survives, and one that tests nothing.

use std::{fs, panic::AssertUnwindSafe, sync::Arc};

use conformance_tests::{Harness as _, MemoryHarness};
use futures_util::FutureExt as _;
use lock_core::{Backend, Error};
use servers::{Change, RedisOptions};
use verification::{
    cases,
    missing_guards::{
        Clients, Setup, Trial, Variant, Verdict,
        cases::{check, common},
        redis::{Raw, evaluating},
        variants,
    },
};

const SCRIPT: &str = "\
local count = redis.call('INCR', KEYS[1])
-- guard: limit | S1 | at_most_two
-- guard: same | S1 | at_most_two | if count > 1 + 1 then return 0 end
-- guard: long | S1 | at_most_two |
--   if count > 20
--   and true then return 0 end
if count > 2 then return 0 end
-- guard: pair | S1 | at_most_two
local pair = {
  count }
return count
";

struct OneRedis(Raw);

#[async_trait::async_trait]
impl Setup for OneRedis {
    async fn start(changes: &[Change<'_>]) -> Self {
        Self(Raw::start("toy:{0}:", RedisOptions::new(), changes).await)
    }

    fn altered(&self) -> u64 {
        self.0.proxy.counters().altered
    }
}

async fn at_most(server: &mut OneRedis, most: &str) -> Verdict {
    let most: i64 = most.parse().unwrap();
    let command = evaluating(SCRIPT, &[server.0.key("n", "a")], &[]);
    for _ in 0..=most {
        let answer = server.0.link.send_packed_command(&command);
        match answer.await.unwrap().extract_error().map_err(|error| error.to_string())? {
            redis::Value::Int(count) if count <= most => {}
            other => return Err(format!("it counted to {other:?}")),
        }
    }
    Ok(())
}

async fn at_most_two(server: &mut OneRedis) -> Verdict {
    at_most(server, "2").await
}

async fn without_teeth(server: &mut OneRedis) -> Verdict {
    let _ = at_most(server, "2").await;
    Ok(())
}

async fn that_panics(server: &mut OneRedis) -> Verdict {
    at_most(server, "2").await.unwrap();
    Ok(())
}

/// What is wrong with a file of these markers.
async fn wrong(markers: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let guards: Vec<_> = markers.iter().map(|it| format!("  -- guard: {it}\nx\n")).collect();
    fs::write(folder.path().join("toy.lua"), guards.concat()).unwrap();
    let trying = async {
        let mut trial = Trial::of(&[folder.path().to_str().unwrap()]);
        let cases = cases![OneRedis: at_most_two, at_most(most), without_teeth, that_panics];
        let named = |name: &str| {
            let case = |it: &&str| it.split(" | ").nth(2)?.split('(').next().map(str::to_owned);
            markers.iter().any(|it| case(it).as_deref() == Some(name))
        };
        // A case that no marker names is an error, which one list below must find.
        let unnamed = |name: &str| name == "at_most_two" && named("that_panics");
        let used = cases.into_iter().filter(|it| named(it.name) || unnamed(it.name));
        trial.on(used.collect()).await;
        trial.end();
    };
    match AssertUnwindSafe(trying).catch_unwind().await {
        Ok(()) => String::new(),
        Err(words) => words.downcast_ref::<String>().unwrap().clone(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variant_must_fail_and_be_understood() {
    assert_eq!(wrong(&["limit | S1 | at_most_two"]).await, "");
    assert_eq!(
        wrong(&[
            "limit | S1 | at_most(2)",
            "long | S1 | at_most_two | if count > 20 then return 0 end"
        ])
        .await,
        ""
    );
    assert_eq!(wrong(&["limit | S1 | that_panics", "long | S1 | at_most_two"]).await, "");
    for (markers, expected) in [
        (&["limit | S1 | at_most(1)"][..], "at_most(1) fails with all guards"),
        (&["same | S1 | at_most_two | if count > 1 + 1 then return 0 end"], "same: SURVIVED"),
        (&["limit | S1 | without_teeth"], "limit: SURVIVED without_teeth"),
        (&["pair | S1 | at_most_two"], "pair: the server refuses it"),
        (&["unknown | S1 | at_most_two"], "unknown: the guard was not sent"),
        (&["limit | S1 | at_most_tow"], "limit: no case \\\"at_most_tow\\\""),
        (&["limit | S1 | that_panics"], "no guard names the case at_most_two"),
        (&["limit | S1"], "is not `NAME | REQUIREMENT | CASE | TEXT`"),
        (&["limit | S9 | at_most_two"], "is not `NAME | REQUIREMENT | CASE | TEXT`"),
        (
            &["limit | S1 | at_most_two", "limit | S1 | at_most_two"],
            "\"limit\" is the name of another",
        ),
        (
            &["two/a | S1 | at_most_two", "two/b | S2 | at_most_two"],
            "\"two/b\" is the name of another",
        ),
    ] {
        let found = wrong(markers).await;
        assert!(found.contains(expected), "{markers:?}: {found}");
    }
}

#[test]
fn a_marker_goes_on_in_the_next_lines_and_a_variant_at_other_guards() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "\
-- guard: two/a | S1 | a_case(of b) |
--   first
    --   and second
-- no part of it
one
-- guard: two/b | S1 | a_case(of b)
two
";
    fs::write(folder.path().join("a.sql"), lines).unwrap();
    let [requirement, case, argument] = ["S1", "a_case", "of b"].map(str::to_owned);
    let guards = [["two/a", "first and second"], ["two/b", ""]];
    let guards = guards.map(|guard| guard.map(str::to_owned)).to_vec();
    let expected = Variant { requirement, case, argument, guards };
    let found = variants(&[folder.path().to_str().unwrap()]);
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [("two".to_owned(), expected)]);
}

struct InMemory;

#[async_trait::async_trait]
impl Setup for InMemory {
    const IN_COPIES: Option<&'static str> =
        Some("missing_guards::a_copy_of_the_program_lacks_a_guard");

    async fn start(_: &[Change<'_>]) -> Self {
        Self
    }
}

#[async_trait::async_trait]
impl Clients for InMemory {
    fn url(&self) -> String {
        String::new()
    }

    async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
        MemoryHarness.connect(url).await
    }
}

/// A text that is compiled into the program and sent to no server, as SQLite's statements are.
const TEXT: &str = include_str!("word.sql");

async fn a_word_is_there(_: &mut InMemory, word: &str) -> Verdict {
    let text = std::hint::black_box(TEXT);
    check(text.contains(word), || format!("{text:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_the_program_lacks_a_guard() {
    let mut trial = Trial::of(&[concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/word.sql")]);
    trial.on_clients(cases![InMemory: a_word_is_there(word)]).await;
    trial.end();
}

/// The scripts and statements that have guards.
const SOURCES: [&str; 8] = [
    "foreign/src/redis/scripts",
    "foreign/src/sql/mysql",
    "foreign/src/sql/postgres",
    "redis/src/scripts",
    "redlock/src/scripts",
    "sql/src/mysql/sql",
    "sql/src/postgres/sql",
    "sql/src/sqlite/sql",
];

/// The variants of all backends, which their own tests try.
pub(crate) fn of_the_backends() -> Vec<Variant> {
    let of = |source: &&str| {
        variants(&[&format!("{}/../../backend-{source}", env!("CARGO_MANIFEST_DIR"))])
    };
    let all: Vec<_> = SOURCES.iter().map(of).flat_map(|it| it.into_values()).collect();
    assert!(all.len() > 300, "{} variants", all.len());
    all
}

#[test]
fn every_common_case_tries_a_guard() {
    let all = of_the_backends();
    let unnamed: Vec<_> = common::<InMemory>()
        .into_iter()
        .map(|case| case.name)
        .filter(|name| !all.iter().any(|it| it.case == *name))
        .collect();
    assert!(unnamed.is_empty(), "no guard names these cases: {unnamed:?}");
}
