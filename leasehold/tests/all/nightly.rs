//! The nightly example does what it says: of ten processes that start it, one runs the job.

use std::process::{Command, Stdio};

#[test]
fn of_ten_processes_one_runs_the_job() {
    let test = std::env::current_exe().unwrap();
    let example = test.ancestors().nth(2).unwrap().join("examples/nightly");
    assert!(example.exists(), "build it first: cargo build -p leasehold --examples");
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let start = |_| Command::new(&example).arg(&url).stdout(Stdio::piped()).spawn().unwrap();
    let started: Vec<_> = (0..10).map(start).collect();
    let outputs = started.into_iter().map(|process| process.wait_with_output().unwrap());
    let texts: Vec<_> = outputs
        .map(|output| {
            assert!(output.status.success());
            String::from_utf8(output.stdout).unwrap()
        })
        .collect();
    let with = |part: &str| texts.iter().filter(|text| text.contains(part)).count();
    assert_eq!((with("attempt 1, with token"), with("it has run on")), (1, 9), "{texts:?}");
}
