//! The web example does what it says: it is ready while its store answers, shows the leader, and
//! resigns when it is told to end.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

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
