//! Tests of `verification::missing_guards`: it must tell apart a variant that is caught, one
//! that survives, and one that tests nothing.

use std::{fs, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;
use servers::Change::{self, LeaveOut, Replace};
use verification::missing_guards::{
    MissingGuard, Setup, Verdict,
    redis::{Raw, evaluating},
    try_all, try_all_in_copies,
};

const SCRIPT: &str = "\
local count = redis.call('INCR', KEYS[1])
-- guard: limit
if count > 2 then return 0 end
-- guard: pair
local pair = {
  count }
return count
";

struct OneRedis(Raw);

#[async_trait::async_trait]
impl Setup for OneRedis {
    async fn start(changes: &[Change<'_>]) -> Self {
        Self(Raw::start("toy:{0}:", changes).await)
    }

    fn altered(&self) -> u64 {
        self.0.proxy.counters().altered
    }
}

async fn at_most_two(server: &mut OneRedis) -> Verdict {
    let command = evaluating(SCRIPT, &[server.0.key("n", "a")], &[]);
    for _ in 0..3 {
        let answer = server.0.link.send_packed_command(&command);
        match answer.await.unwrap().extract_error().map_err(|error| error.to_string())? {
            redis::Value::Int(count) if count < 3 => {}
            other => return Err(format!("it counted to {other:?}")),
        }
    }
    Ok(())
}

async fn failure(changes: &'static [Change<'static>]) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("toy.lua"), SCRIPT).unwrap();
    let list =
        [MissingGuard::<OneRedis> { what: "toy", changes, case: |it| Box::pin(at_most_two(it)) }];
    let folders = [folder.path().to_str().unwrap()];
    let trial = try_all(&folders, &list);
    match AssertUnwindSafe(trial).catch_unwind().await {
        Ok(()) => String::new(),
        Err(words) => words.downcast_ref::<String>().unwrap().clone(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_variant_must_fail_and_be_understood() {
    assert_eq!(failure(&[LeaveOut("limit")]).await, "");
    assert!(
        failure(&[Replace("limit", "if count > 1 + 1 then return 0 end")])
            .await
            .contains("SURVIVED")
    );
    assert!(failure(&[LeaveOut("pair")]).await.contains("refuses the changed text"));
    assert!(failure(&[LeaveOut("no such guard")]).await.contains("stands 0 times"));
}

struct InMemory;

#[async_trait::async_trait]
impl Setup for InMemory {
    async fn start(_: &[Change<'_>]) -> Self {
        Self
    }

    fn altered(&self) -> u64 {
        0
    }
}

/// A text that is compiled into the program and sent to no server, as SQLite's statements are.
const TEXT: &str = "\
-- guard: word in a copy
a word that is to be there
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_the_program_lacks_a_guard() {
    async fn the_word_is_there() -> Verdict {
        let text = std::hint::black_box(TEXT);
        if text.contains("word that") { Ok(()) } else { Err(format!("{text:?}")) }
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all");
    let list = [MissingGuard::<InMemory> {
        what: "toy",
        changes: &[LeaveOut("word in a copy")],
        case: |_| Box::pin(the_word_is_there()),
    }];
    try_all_in_copies(&[folder], &list, "missing_guards::a_copy_of_the_program_lacks_a_guard")
        .await;
}
