//! Many processes on one store: nothing is lost, and tokens stand in the order of the grants.

use std::fs;
use std::process::Stdio;
use std::thread;

use crate::support::locks::Store;

const PROCESSES: usize = 8;
const EACH: usize = 200;

/// Without a lock most increments would be lost. The shell's own words only: no process is started.
const INCREMENT: &str =
    "read -r n < counter; echo $((n + 1)) > counter; echo $LEASEHOLD_TOKEN >> tokens";

#[test]
fn eight_processes_count_to_1600_with_rising_tokens() {
    let store = Store::new();
    fs::write(store.beside("counter"), "0\n").unwrap();
    let program = env!("CARGO_BIN_EXE_leasehold");
    // A shell that runs leasehold so many times, one after the other, until one fails.
    let script = format!(
        "i=0; while [ $i -lt {EACH} ]; do i=$((i + 1)); \
         {program} run --wait forever counter -- sh -c '{INCREMENT}' || exit; done"
    );
    let workers: Vec<_> = (0..PROCESSES)
        .map(|_| {
            std::process::Command::new("sh")
                .args(["-c", &script])
                .current_dir(store.directory())
                .env("LEASEHOLD_STORE", store.url())
                .stdin(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .map(|child| thread::spawn(move || child.wait_with_output().unwrap()))
        .collect();
    for worker in workers {
        let output = worker.join().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*stderr), (Some(0), ""));
    }
    let count: usize = fs::read_to_string(store.beside("counter")).unwrap().trim().parse().unwrap();
    assert_eq!(count, PROCESSES * EACH);
    let tokens: Vec<u64> = fs::read_to_string(store.beside("tokens"))
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert_eq!(tokens.len(), PROCESSES * EACH);
    assert!(tokens.is_sorted_by(|a, b| a < b), "tokens in the order of the increments");
}
