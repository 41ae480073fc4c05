//! Child processes that hold a lock, and that a case kills or pauses. A child is the test program,
//! started again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lock_core::{FencingToken, Guard, LockClient, LockName};
use serde::{Deserialize, Serialize};

use crate::{
    child_process::{ChildProcess, exit_with_parent},
    harness::Harness,
    history::{Acquisition, Recorder},
    setting::Setting,
    sys::Signal,
};

/// How long a child may take for a step.
const STEP: Duration = Duration::from_secs(60);
/// The environment variable that tells a process that it is a child, and what its job is.
const VARIABLE: &str = "LEASEHOLD_CONFORMANCE_CHILD";

/// What a child does.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum Job {
    /// Acquires, prints `held TOKEN`, and prints `lost REASON` when it loses the lock.
    Hold,
    /// Adds one to the number in a file, `times` times, each time under the lock. Prints `done`.
    Count { file: String, times: u32 },
    /// Acquires the only permit of a semaphore, then does what `Hold` does.
    HoldPermit,
    /// Acquires the lock as a reader, then does what `Hold` does.
    HoldShared,
    /// Acquires the lock as a reader `times` times. Each time it reads the number in a file twice,
    /// and fails if it changed. Prints `done`.
    Read { file: String, times: u32 },
    /// Acquires the lock and the lock `NAME too`, then does what `Hold` does with both.
    HoldBoth,
    /// Acquires a permit `times` times. While it holds the permit it has a file in `folder/inside`,
    /// and it holds until `folder/enough` exists. Prints `done`.
    Enter { folder: String, permits: u32, times: u32 },
    /// Takes part in an election without end, and prints what it sees as events of a history.
    Lead,
}

/// What a child does: which store, which lock, which job.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct ChildSpec {
    harness: String,
    address: String,
    name: LockName,
    lease: Duration,
    job: Job,
}

impl ChildSpec {
    /// What this process is to do, if it is a child.
    pub(crate) fn of_this_process() -> Option<Self> {
        serde_json::from_str(&std::env::var(VARIABLE).ok()?).ok()
    }

    pub(crate) async fn run(self, harnesses: &[Arc<dyn Harness>]) {
        exit_with_parent();
        let harness = harnesses.iter().find(|each| each.name() == self.harness);
        let harness = harness.expect("the parent's harness");
        let backend = harness.connect(&self.address).await.expect("a connection");
        let client = LockClient::new(backend);
        let (name, lease) = (self.name, self.lease);
        match self.job {
            Job::Hold => {
                hold(client.lock(name).lease(lease).acquire().await.expect("the lock")).await;
            }
            Job::HoldPermit => {
                let permit = client.semaphore(name, 1).lease(lease).acquire().await;
                hold(permit.expect("a permit")).await;
            }
            Job::HoldBoth => {
                let second = LockName::new(format!("{name} too")).expect("a name");
                let locks = [name, second].map(|name| client.lock(name).lease(lease));
                let guards = lock_core::all(locks).acquire().await.expect("both locks");
                println!("held {}", guards[0].token());
                let (_, reason) = guards.lost().await;
                assert!(!guards.is_valid(), "lost guards call themselves valid");
                println!("lost {reason}");
            }
            Job::Enter { folder, permits, times } => {
                let (inside, enough) = (format!("{folder}/inside"), format!("{folder}/enough"));
                for _ in 0..times {
                    let permit = client.semaphore(&name, permits).lease(lease).acquire().await;
                    let permit = permit.expect("a permit");
                    let entry = tempfile::NamedTempFile::new_in(&inside).expect("an entry");
                    let now = std::fs::read_dir(&inside).expect("the folder").count();
                    assert!(now <= permits as usize, "{now} are inside with {permits} permits");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    while !std::fs::exists(&enough).expect("the folder") {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    drop(entry);
                    permit.release().await.expect("a release");
                }
                println!("done");
            }
            Job::HoldShared => {
                let reader = client.lock(name).lease(lease).shared().acquire().await;
                hold(reader.expect("the lock")).await;
            }
            Job::Read { file, times } => {
                for _ in 0..times {
                    let reader = client.lock(&name).lease(lease).shared().acquire().await;
                    let reader = reader.expect("the lock");
                    let first = number_in(&file);
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    assert_eq!(number_in(&file), first, "somebody wrote beside a reader");
                    reader.release().await.expect("a release");
                }
                println!("done");
            }
            Job::Lead => lead(&client, &name, lease).await,
            Job::Count { file, times } => {
                for _ in 0..times {
                    let guard = client.lock(&name).lease(lease).acquire().await.expect("the lock");
                    add_one(&file);
                    guard.release().await.expect("a release");
                }
                println!("done");
            }
        }
    }
}

async fn hold(guard: Guard) {
    println!("held {}", guard.token());
    let reason = guard.lost().await;
    assert!(!guard.is_valid(), "a lost guard calls itself valid");
    println!("lost {reason}");
}

/// Leads again and again, and records all the time whether the leadership is valid.
async fn lead(client: &LockClient, name: &LockName, lease: Duration) {
    let recorder = Recorder::with_sink(std::process::id(), |event| {
        println!("{}", serde_json::to_string(event).expect("plain data"));
    });
    let election = client.election(name).lease(lease);
    let ended = election.run(async |leadership| {
        let term = Term(recorder.ask(name));
        term.0.acquired_through(name, &leadership);
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            term.0.look_through(&leadership);
        }
    });
    let error = ended.await.map(drop).expect_err("work that never ends");
    panic!("the candidate gave up: {error}");
}

/// Records the end of a leadership when the work is dropped.
struct Term(Acquisition);

impl Drop for Term {
    fn drop(&mut self) {
        self.0.given_up();
    }
}

/// Reads, adds one, writes. If two tasks do it at once, an update is lost.
pub(crate) fn add_one(file: &str) {
    let value = number_in(file);
    std::fs::write(file, (value + 1).to_string()).expect("the file");
}

fn number_in(file: &str) -> u64 {
    std::fs::read_to_string(file).expect("the file").parse().expect("a number")
}

/// A running child; killed when dropped.
pub(crate) struct Child(ChildProcess);

impl Child {
    pub(crate) fn start(setting: &Setting, name: &LockName, lease: Duration, job: Job) -> Self {
        let harness = setting.harness().name().to_owned();
        let (address, name) = (setting.address().to_owned(), name.clone());
        let spec = ChildSpec { harness, address, name, lease, job };
        let spec = serde_json::to_string(&spec).expect("plain data");
        Self(ChildProcess::start(VARIABLE, &spec).expect("a child process"))
    }

    /// From now on passes each line that the child prints to `hear`.
    pub(crate) fn forward_lines(&mut self, hear: impl Fn(String) + Send + 'static) {
        drop(self.0.forward_lines(hear));
    }

    /// The next line that the child prints.
    pub(crate) async fn next_line(&mut self) -> String {
        let line = tokio::time::timeout(STEP, self.0.next_line()).await;
        let line = line.expect("a line in time").expect("output");
        line.expect("a line before the child's end")
    }

    /// Waits until the child holds the lock; returns the token.
    pub(crate) async fn held(&mut self) -> FencingToken {
        let line = self.next_line().await;
        let token = line.strip_prefix("held ").and_then(|token| token.parse().ok());
        token.and_then(FencingToken::new).unwrap_or_else(|| panic!("the child said {line:?}"))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id().expect("a running child")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.0.signal(signal).expect("a signal to a running child");
    }

    /// Stops the child (SIGSTOP), but not in the middle of a request, where it could block a store
    /// that is a file.
    pub(crate) async fn pause(&self, setting: &Setting, client: &LockClient) {
        let other = setting.name("of no child");
        for _ in 0..10 {
            self.signal(Signal::STOP);
            if client.lock(&other).try_acquire().await.is_ok() {
                return;
            }
            self.signal(Signal::CONT);
            // This answer comes when the child's request has ended.
            let _ = client.lock(&other).try_acquire().await;
        }
        panic!("the store answers nobody while the child is stopped");
    }

    /// Resumes the paused child, which must report its loss.
    pub(crate) async fn resume_to_its_loss(&mut self) {
        self.signal(Signal::CONT);
        let line = self.next_line().await;
        assert!(
            line.starts_with("lost "),
            "the paused holder must report its loss; it printed {line:?}"
        );
    }

    /// Kills the child (SIGKILL), as a crash would, and waits for its end.
    pub(crate) async fn kill(mut self) -> Instant {
        self.0.kill().await.expect("a kill");
        Instant::now()
    }

    pub(crate) async fn ended(mut self) {
        let status = tokio::time::timeout(STEP, self.0.ended()).await;
        let status = status.expect("an end in time").expect("a status");
        assert!(status.success(), "the child ended with {status}");
    }
}
