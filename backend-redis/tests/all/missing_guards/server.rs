//! One Redis server, also called through its scripts: without a client, nothing hides what a script
//! fails to refuse.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, LazyLock},
};

use lock_core::{Backend, Error};
use redis::Value;
use servers::{Change, RedisOptions};
use verification::missing_guards::{
    Clients, Setup,
    redis::{Raw, SECOND, owner, parts, text},
};

use super::text::whole;

macro_rules! script {
    ($name:literal) => {
        LazyLock::new(|| {
            whole(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/scripts/", $name, ".lua")))
        })
    };
}

/// The texts of the scripts, as the server gets them.
pub(super) static ACQUIRE: LazyLock<String> = script!("acquire");
pub(crate) static RELEASE: LazyLock<String> = script!("release");
pub(super) static BATCH: LazyLock<String> = script!("batch");
static INIT: LazyLock<String> = script!("init");
static FIRST_USE: LazyLock<String> = script!("first_use");

/// An attempt; times are of the server's clock, in microseconds.
pub(super) struct Attempt {
    pub(super) owner: &'static str,
    pub(super) lease: u64,
    pub(super) floor: u64,
    /// The time after which it is late.
    pub(super) late: u64,
}

pub(crate) struct Server(Raw);

impl Deref for Server {
    type Target = Raw;

    fn deref(&self) -> &Raw {
        &self.0
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Raw {
        &mut self.0
    }
}

#[async_trait::async_trait]
impl Setup for Server {
    async fn start(changes: &[Change<'_>]) -> Self {
        let options = RedisOptions::new().aof().line("appendfsync always");
        Self(Raw::start("leasehold:{0}:", options, changes).await)
    }

    fn altered(&self) -> u64 {
        self.proxy.counters().altered
    }
}

#[async_trait::async_trait]
impl Clients for Server {
    fn url(&self) -> String {
        format!("redis://{}", self.proxy.address())
    }

    async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
        backend_redis::connect(url).await
    }
}

impl Server {
    /// An attempt without any reason to be refused.
    pub(super) async fn attempt(&mut self, owner: &'static str) -> Attempt {
        let late = self.now().await + 60 * SECOND;
        Attempt { owner, lease: 20_000, floor: 0, late }
    }

    /// The token if it is granted, otherwise the answer. With `margin`, a replica may be promoted,
    /// so that the script checks the server's identity again.
    pub(super) async fn ask(&mut self, attempt: &Attempt, margin: &str) -> Result<u64, String> {
        let [epoch, lock, queue, entries, tombstone] = self.keys(attempt.owner);
        let mut arguments = self.in_epoch();
        arguments.extend([margin.to_owned(), attempt.late.to_string()]);
        arguments.extend(request(attempt));
        arguments.push(String::new());
        told(self.eval(&ACQUIRE, &[epoch, lock, queue, entries, tombstone], &arguments).await)
    }

    /// The same for the next request that a release carries, while somebody waits. `e` releases,
    /// and `holder` holds the lock.
    pub(super) async fn release(&mut self, holder: &str, attempt: &Attempt) -> Result<u64, String> {
        let [epoch, lock, queue, entries, tombstone] = self.keys(attempt.owner);
        self.say(&["RPUSH", &queue, &owner("f")]).await;
        let record = format!("{} 1 0 label", owner(holder));
        self.say(&["SET", &lock, &record, "PX", "20000"]).await;
        let mut arguments = self.in_epoch();
        arguments.extend([String::new(), attempt.late.to_string(), owner("e"), String::new()]);
        arguments.extend(request(attempt));
        arguments.push("channel".to_owned());
        told(self.eval(&RELEASE, &[epoch, lock, queue, entries, tombstone], &arguments).await)
    }

    /// Takes the lock, which is free.
    pub(crate) async fn taken(&mut self, owner: &'static str) -> Result<u64, String> {
        let attempt = self.attempt(owner).await;
        self.ask(&attempt, "").await
    }

    /// The first arguments of a script, without a margin, and of a request that is never late.
    pub(crate) fn in_time(&self) -> Vec<String> {
        let mut arguments = self.in_epoch();
        arguments.extend([String::new(), u64::MAX.to_string()]);
        arguments
    }

    /// Changes settings: see init.lua. Returns in how many µs grants begin again.
    pub(super) async fn set_up(&mut self, how: &str, longest: &str, quarantine: &str) -> u64 {
        let mut arguments = self.in_time();
        arguments.extend([how, longest, quarantine].map(str::to_owned));
        let keys = [self.epoch()];
        let answer = parts(self.eval(&INIT, &keys, &arguments).await);
        text(&answer[3]).parse().unwrap()
    }

    /// A step of a first use: see first_use.lua.
    pub(super) async fn open_store(&mut self, witness: &str) {
        let mut arguments = self.in_time();
        arguments.extend(["own", witness].map(str::to_owned));
        let keys = [self.epoch()];
        self.eval(&FIRST_USE, &keys, &arguments).await;
    }
}

fn request(attempt: &Attempt) -> [String; 4] {
    // A writer without a floor sends none.
    let floor = if attempt.floor == 0 { String::new() } else { attempt.floor.to_string() };
    [owner(attempt.owner), attempt.lease.to_string(), "label".to_owned(), floor]
}

/// The answer of a script that may grant.
fn told(answer: Value) -> Result<u64, String> {
    match answer {
        // The holder now, if it is more than a number.
        Value::BulkString(_) => text(&answer).parse().map_err(|_| text(&answer)),
        // A release that granted nothing.
        Value::Int(number) => Err(number.to_string()),
        Value::Array(mut said) => match &said[0] {
            Value::BulkString(word) if word == b"granted" => Ok(text(&said[1]).parse().unwrap()),
            // The answer to a release, followed by the answer to its next request.
            Value::Int(_) if said.len() > 1 => told(said.remove(1)),
            Value::Int(_) => told(said.remove(0)),
            word => Err(text(word)),
        },
        other => panic!("{other:?}"),
    }
}
