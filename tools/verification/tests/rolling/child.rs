//! One process of the fleet: it acquires one name after the other until its standard input closes,
//! or it is killed.

use std::{
    env,
    fs::{File, OpenOptions},
    io::Write as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use conformance_tests::history::Recorder;
use leasehold::{ErrorKind, LockClient, LockName};
use lock_core::{Env as _, SystemEnv};

use crate::resource;

/// The variable that tells a process that it is a child.
const CHILD: &str = "LEASEHOLD_ROLLING_CHILD";
/// How many names. Here and below: in the gate, and with `LEASEHOLD_SOAK=1`.
const NAMES: [u32; 2] = [10, 20];
pub(crate) const LEASE: Duration = Duration::from_secs(1);
/// One hold in so many outlives its lease, and so is renewed.
const LONG: [u32; 2] = [60, 250];

/// The index of the sizes above.
pub(crate) fn size() -> usize {
    usize::from(env::var_os("LEASEHOLD_SOAK").is_some())
}

pub(crate) fn names() -> u32 {
    NAMES[size()]
}

/// Which process it is, in which phase, and where the files are.
pub(crate) struct ChildSpec {
    pub(crate) number: u32,
    pub(crate) url: String,
    pub(crate) folder: PathBuf,
}

impl ChildSpec {
    pub(crate) fn of_this_process() -> Option<Self> {
        let fields: Vec<String> = serde_json::from_str(&env::var(CHILD).ok()?).ok()?;
        let [number, url, folder] = <[String; 3]>::try_from(fields).ok()?;
        Some(Self { number: number.parse().ok()?, url, folder: folder.into() })
    }

    /// The variable of a child with this specification.
    pub(crate) fn variable(&self) -> (&'static str, String) {
        let folder = self.folder.to_str().unwrap();
        let fields = [&self.number.to_string(), &self.url, folder];
        (CHILD, serde_json::to_string(&fields).unwrap())
    }

    /// Says `ready`, and a line for each lock that it had.
    pub(crate) async fn run(self) {
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            end.store(true, Ordering::SeqCst);
        });
        let Some(client) = self.connect(&ended).await else { return };
        println!("ready");
        let mut log = Log::of(&self);
        while !ended.load(Ordering::SeqCst) {
            self.hold_one(&client, &mut log).await;
        }
        client.close().await;
    }

    /// Connects; if the record of a killed process two phases away still lives, waits until it has
    /// expired.
    async fn connect(&self, ended: &AtomicBool) -> Option<LockClient> {
        while !ended.load(Ordering::SeqCst) {
            match leasehold::connect(&self.url).await {
                Ok(client) => return Some(client),
                Err(error) if error.kind() == ErrorKind::Config => {
                    let text = error.to_string();
                    assert!(text.contains("two phases away"), "{text}");
                    println!("refused");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                // As when the machine stood still while the record was written.
                Err(error) if error.is_retryable() => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err(error) => panic!("no connection: {error}"),
            }
        }
        None
    }

    async fn hold_one(&self, client: &LockClient, log: &mut Log) {
        let random = SystemEnv.random();
        let name = LockName::new(format!("job-{}", random as u32 % names())).unwrap();
        let file = self.folder.join(name.as_str());
        let op = log.recorder.ask(&name);
        // Some waits are short, so that they run out: a waiter that leaves the queue is tested,
        // too.
        let wait = Duration::from_millis(if random >> 64 & 3 == 0 { 20 } else { 10_000 });
        let guard = match client.lock(&name).lease(LEASE).wait(wait).acquire().await {
            Ok(guard) => guard,
            Err(error) => {
                // On a machine that stands still for a lease, one of the two stores' locks may be
                // lost before the grant.
                assert!(error.is_retryable(), "{error}");
                op.failed(&error);
                return log.flush();
            }
        };
        op.acquired(&guard);
        log.flush();
        let read = resource::read(&file);
        let long = ((random >> 32) as u32).is_multiple_of(LONG[size()]);
        let short = Duration::from_micros((random >> 96) as u64 & 0xfff);
        tokio::time::sleep(if long { LEASE + LEASE / 4 } else { short }).await;
        if op.look(&guard) {
            if long {
                println!("renewed");
            }
            let wrote = format!("{}.{}", self.number, op.op().number);
            if !resource::write(&file, guard.token(), &read, &wrote) {
                println!("stale");
            }
        }
        op.given_up();
        // Written before another can have the lock: a kill just after the release must not look
        // like a hold.
        log.flush();
        op.released(&guard.release().await);
        log.flush();
        println!("held");
    }
}

/// The history of this process, written so that what was seen before a kill is there.
struct Log {
    recorder: Recorder,
    file: File,
    written: usize,
}

impl Log {
    fn of(spec: &ChildSpec) -> Self {
        let path = spec.folder.join(format!("history-{}", spec.number));
        let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        Self { recorder: Recorder::new(spec.number), file, written: 0 }
    }

    fn flush(&mut self) {
        let history = self.recorder.history();
        let mut text = String::new();
        for event in &history.events()[self.written..] {
            text.push_str(&serde_json::to_string(event).unwrap());
            text.push('\n');
        }
        self.written = history.events().len();
        self.file.write_all(text.as_bytes()).unwrap();
    }
}
