//! The leader example does what it says: one leads, a killed leader is replaced, and one that is
//! told to end resigns.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

struct Candidate {
    process: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Candidate {
    fn start(url: &str) -> Self {
        let test = std::env::current_exe().unwrap();
        let example = test.ancestors().nth(2).unwrap().join("examples/leader");
        assert!(example.exists(), "build it first: cargo build -p leasehold --examples");
        let mut process = Command::new(&example).arg(url).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// Waits for a line with this in it; the term at its end.
    fn term(&mut self, part: &str) -> u64 {
        let line = self.lines.by_ref().map(Result::unwrap).find(|line| line.contains(part));
        line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_leader_that_ends_is_replaced_in_a_higher_term() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let mut first = Candidate::start(&url);
    let term = first.term("leading, with term");
    let mut second = Candidate::start(&url);
    assert_eq!(second.term("leads term"), term, "it sees who leads");
    first.process.kill().unwrap();
    let next = second.term("leading, with term");
    assert!(next > term, "{next} after {term}");

    let mut third = Candidate::start(&url);
    assert_eq!(third.term("leads term"), next);
    let second_id = second.process.id().to_string();
    assert!(Command::new("kill").args(["-INT", &second_id]).status().unwrap().success());
    let last = third.term("leading, with term");
    assert!(last > next, "{last} after {next}");
    assert!(second.process.wait().unwrap().success());
    assert!(second.lines.by_ref().map(Result::unwrap).any(|line| line == "resigning"));
}
