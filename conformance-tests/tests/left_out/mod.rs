//! Runs one case in a process of its own, whose program or environment lacks a guard.

use std::{
    fmt,
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, OnceLock},
    time::{Duration, Instant},
};

/// Names the guard that a process is to do without.
pub(crate) const SWITCH: &str = "LEASEHOLD_LEFT_OUT";

/// Whether this process runs without that guard.
#[allow(dead_code)] // a target may have guards of another kind
pub(crate) fn is(guard: &str) -> bool {
    static LEFT_OUT: OnceLock<Option<String>> = OnceLock::new();
    LEFT_OUT.get_or_init(|| std::env::var(SWITCH).ok()).as_deref() == Some(guard)
}

/// Longer than any case takes.
const LIMIT: Duration = Duration::from_secs(90);

/// How a case ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Passed,
    /// With its last words.
    Failed(String),
    /// It says nothing of the guard.
    Untold(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("SURVIVED"),
            Self::Failed(why) => write!(f, "caught: {why}"),
            Self::Untold(why) => write!(f, "UNTOLD: {why}"),
        }
    }
}

/// Runs the test `case` of `program`, without `guard`.
pub(crate) fn run(program: &Path, case: &str, guard: Option<&str>) -> Ended {
    let mut command = Command::new(program);
    command.args(["--exact", case, "--nocapture", "--test-threads=1"]);
    command.env("RUST_BACKTRACE", "0").env_remove(SWITCH);
    command.envs(guard.map(|guard| (SWITCH, guard)));
    let output = tempfile::NamedTempFile::new().unwrap();
    // One description, so that neither writes over the other.
    let sink = output.reopen().unwrap();
    command.stdin(Stdio::null()).stdout(sink.try_clone().unwrap()).stderr(sink);
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if began.elapsed() > LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                return Ended::Untold(format!("{case} hung"));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let said = String::from_utf8_lossy(&std::fs::read(output.path()).unwrap()).into_owned();
    if !said.contains("running 1 test\n") {
        return Ended::Untold(format!("there is no test {case}: {said}"));
    }
    match (status.success(), said.split_once("panicked at ")) {
        (true, _) => Ended::Passed,
        (false, Some((_, why))) => {
            let why = why.lines().take(2).collect::<Vec<_>>().join(" ");
            if is_of_the_kit(&why) { Ended::Untold(why) } else { Ended::Failed(why) }
        }
        (false, None) => Ended::Untold(format!("{case} ended by {status}: {said}")),
    }
}

/// Whether a server or a program did not start, or the system refused something: then the case has not come
/// to what it is about. What was awaited in vain may well be that.
pub(crate) fn is_of_the_kit(why: &str) -> bool {
    let kinds = ["MissingProgram", "Exited", "Io", "Command", "NoPort", "NoAccount", "Certificate"];
    kinds.iter().any(|kind| why.contains(&format!("`Err` value: {kind}")))
}

/// Tries all of `count`, two at a time since some wait; each must fail.
pub(crate) fn try_all(count: usize, one: impl Fn(usize) -> (String, Ended) + Sync) {
    let (next, wrong) = (Mutex::new(0..count), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(at) = next.lock().unwrap().next() else { return };
                    let (what, ended) = one(at);
                    println!("{what}: {ended}");
                    if !matches!(ended, Ended::Failed(_)) {
                        wrong.lock().unwrap().push(format!("{what}: {ended}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(count > 0 && wrong.is_empty(), "{wrong:#?}");
}
