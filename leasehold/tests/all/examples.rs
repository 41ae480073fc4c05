//! The examples do what they say: one leads, one of ten runs the job, and the web service is ready.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
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

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn answer(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_web_service_is_ready_shows_the_leader_and_resigns() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let test = std::env::current_exe().unwrap();
    let example = test.ancestors().nth(2).unwrap().join("examples/web");
    assert!(example.exists(), "build it first: cargo build -p leasehold --examples");
    let mut service =
        Running(Command::new(&example).arg(&url).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(service.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut address = None;
    let mut term = None;
    while address.is_none() || term.is_none() {
        let line = lines.next().expect("the service goes on");
        let word = line.rsplit(' ').next().unwrap().to_owned();
        if line.starts_with("listening on") {
            address = Some(word);
        } else if line.starts_with("leading") {
            term = Some(word);
        }
    }
    let (address, term) = (address.unwrap(), term.unwrap());
    assert!(answer(&address, "/healthz").ends_with("ok"));
    assert!(answer(&address, "/readyz").starts_with("HTTP/1.0 200"));
    // What it shows is a little late.
    while !answer(&address, "/leader").contains(&format!("in term {term}")) {}
    let pid = service.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(lines.last().as_deref(), Some("resigned"));
    assert!(service.0.wait().unwrap().success());
}
