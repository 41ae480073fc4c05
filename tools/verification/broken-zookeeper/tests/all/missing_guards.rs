//! Tries the broken variants, each in a process of its own.

use std::{env, future::ready, process::Stdio, time::Duration};

use backend_zookeeper::{MISSING, VARIANTS};
use futures_util::{StreamExt as _, stream};
use tokio::{process::Command, time::timeout};

/// How many run at the same time. Each has servers, and mostly waits for them.
const AT_ONCE: usize = 6;
/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// If the environment variable `LEASEHOLD_GUARD` is set, only those with this text in their names.
#[tokio::test(flavor = "multi_thread")]
async fn each_guard_is_missed() {
    let wanted = env::var("LEASEHOLD_GUARD").unwrap_or_default();
    let tried = VARIANTS.iter().filter(|[name, ..]| name.contains(&wanted));
    let wrong = stream::iter(tried.map(survives)).buffer_unordered(AT_ONCE).filter_map(ready);
    let wrong: Vec<_> = wrong.collect().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong, if the test passes without this guard, or there is no such test.
async fn survives([name, requirement, test]: &[&str; 3]) -> Option<String> {
    let mut program = Command::new(env::current_exe().unwrap());
    program.args(["--exact", test]).env(MISSING, name).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(LIMIT, program.output()).await.expect("the test ends").unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let mut why = said.lines().skip_while(|line| !line.contains(" panicked at "));
    println!("{requirement} {name}, by {test}: {:?}", why.nth(1));
    let is_caught = said.contains("FAILED. 0 passed; 1 failed");
    (!is_caught).then(|| format!("{name}: SURVIVED {test}: {said}"))
}

#[test]
fn each_safety_requirement_has_a_variant() {
    for wanted in ["S1", "S2", "S3", "S4", "S5", "S6"] {
        let of_it = VARIANTS.iter().filter(|[_, requirement, _]| *requirement == wanted);
        assert!(of_it.count() > 0, "no variant breaks {wanted}");
    }
}
