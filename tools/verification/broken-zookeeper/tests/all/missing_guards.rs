//! Tries the broken variants, each in a process of its own. Its test must say that the promise is
//! broken: without a server, the test fails with another text.

use std::{env, future::ready, process::Stdio, time::Duration};

use backend_zookeeper::{MISSING, VARIANTS};
use futures_util::{StreamExt as _, stream};
use tokio::{process::Command, time::timeout};

/// How many run at the same time. Each has servers, and mostly waits for them.
const AT_ONCE: usize = 6;
/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);
/// What the tests say when a promise is broken: one of these texts.
const BROKEN: [(&str, &[&str]); 8] = [
    ("S1", &["two holders: Granted", "must not be granted now; the store answered Granted"]),
    ("S2", &["the token "]),
    ("S3", &["two holders: Granted", "two holders: the first is valid"]),
    ("S4", &["the second release has released it"]),
    ("S5", &["the renewal should be Lost: [Renewed"]),
    ("S6", &["it stays held: Some(Ok(Busy", "must get nothing; the store answered Ok(Granted"]),
    ("S7", &["it is answered by the follower: Ok(Ok("]),
    ("operation", &["the session has ended: Lost"]),
];

/// If the environment variable `LEASEHOLD_GUARD` is set, only those with this text in their names.
#[tokio::test(flavor = "multi_thread")]
async fn each_guard_is_missed() {
    let wanted = env::var("LEASEHOLD_GUARD").unwrap_or_default();
    let tried = VARIANTS.iter().filter(|[name, ..]| name.contains(&wanted));
    let wrong = stream::iter(tried.map(survives)).buffer_unordered(AT_ONCE).filter_map(ready);
    let wrong: Vec<_> = wrong.collect().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong, if the test passes without this guard, fails for another reason, or is not there.
async fn survives([name, requirement, test]: &[&str; 3]) -> Option<String> {
    let mut program = Command::new(env::current_exe().unwrap());
    program.args(["--exact", test]).env(MISSING, name).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(LIMIT, program.output()).await.expect("the test ends").unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let mut why = said.lines().skip_while(|line| !line.contains(" panicked at "));
    let why = why.nth(1).unwrap_or_default();
    println!("{requirement} {name}, by {test}: {why}");
    let (_, broken) = BROKEN.iter().find(|(it, _)| it == requirement).expect("a requirement");
    let is_caught = said.contains("FAILED. 0 passed; 1 failed")
        && broken.iter().any(|promise| why.contains(promise));
    (!is_caught).then(|| format!("{name}: NOT CAUGHT by {test}, which must say {broken:?}: {said}"))
}

#[test]
fn each_safety_requirement_has_a_variant() {
    for (wanted, _) in BROKEN {
        let is_there = VARIANTS.iter().any(|[_, requirement, _]| *requirement == wanted);
        assert!(is_there, "no variant breaks {wanted}");
    }
}
