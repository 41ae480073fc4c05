//! One Redis server, called through its scripts.

use std::{
    ops::{Deref, DerefMut},
    sync::LazyLock,
};

use redis::Value;
use servers::Change;
use verification::missing_guards::{
    Setup, Verdict,
    redis::{LONGEST, Raw, SECOND, owner, parts, text},
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
static ABANDON: LazyLock<String> = script!("abandon");
static RAISE: LazyLock<String> = script!("raise");
static INIT: LazyLock<String> = script!("init");
static RENEW: LazyLock<String> = script!("renew");
static OPEN: LazyLock<String> = script!("open");

/// The ways in which the server may give a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The short way of `acquire.lua`.
    Short,
    /// The long way, since there is a queue.
    Long,
    /// After the release of the same process, with a queue.
    Next,
    /// After a repeated release: the first try has already given the lock to this request.
    Again,
}

/// An attempt; times are of the server's clock, in microseconds.
#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) owner: &'static str,
    pub(super) lease: u64,
    pub(super) floor: u64,
    /// The time after which it is late.
    pub(super) late: u64,
}

pub(crate) struct Server {
    raw: Raw,
    /// Whether a replica may be promoted, so that the script checks the server's identity again.
    pub(super) replicated: bool,
}

impl Deref for Server {
    type Target = Raw;

    fn deref(&self) -> &Raw {
        &self.raw
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut Raw {
        &mut self.raw
    }
}

#[async_trait::async_trait]
impl Setup for Server {
    async fn start(changes: &[Change<'_>]) -> Self {
        let raw = Raw::start("leasehold:{0}:", changes).await;
        Self { raw, replicated: false }
    }

    fn altered(&self) -> u64 {
        self.proxy.counters().altered
    }
}

impl Server {
    /// An attempt without any reason to be refused.
    pub(super) async fn attempt(&mut self, owner: &'static str) -> Attempt {
        let late = self.now().await + 60 * SECOND;
        Attempt { owner, lease: 20_000, floor: 0, late }
    }

    /// Puts an owner into the queue whose entry is gone.
    pub(super) async fn queue(&mut self, letter: &str) {
        let queue = self.key("queue", "a");
        self.say(&["RPUSH", &queue, &owner(letter)]).await;
    }

    /// The token if it is granted, otherwise the answer.
    pub(super) async fn ask(&mut self, way: Way, attempt: &Attempt) -> Result<u64, String> {
        if way != Way::Short {
            self.queue("f").await;
        }
        let Attempt { owner: letter, lease, floor, late } = *attempt;
        let [lease, late] = [lease, late].map(|number| number.to_string());
        // A writer without a floor sends none.
        let floor = if floor == 0 { String::new() } else { floor.to_string() };
        let (asker, label, channel) = (owner(letter), "label".to_owned(), "channel".to_owned());
        let margin = if self.replicated { "0" } else { "" };
        let mut arguments = self.in_epoch();
        arguments.extend([margin.to_owned(), late]);
        let [epoch, lock, queue, entries, tombstone] = self.keys(letter);
        let answer = match way {
            Way::Short | Way::Long => {
                let keys = [epoch, lock, queue, entries, tombstone];
                arguments.extend([asker, lease, label, floor, String::new()]);
                self.eval(&ACQUIRE, &keys, &arguments).await
            }
            Way::Next | Way::Again => {
                self.hold(if way == Way::Next { "e" } else { letter }).await;
                let keys = [epoch, lock, queue, entries, tombstone];
                let (holder, keep) = (owner("e"), String::new());
                arguments.extend([holder, keep, asker, lease, label, floor, channel]);
                self.eval(&RELEASE, &keys, &arguments).await
            }
        };
        told(answer)
    }

    /// Makes an owner the holder.
    pub(super) async fn hold(&mut self, letter: &str) {
        let lock = self.key("lock", "a");
        let record = format!("{} 1 0 label", owner(letter));
        self.say(&["SET", &lock, &record, "PX", "20000"]).await;
    }

    /// Takes the lock, which is free.
    pub(crate) async fn taken(&mut self, owner: &'static str) -> Result<u64, String> {
        let attempt = self.attempt(owner).await;
        self.ask(Way::Short, &attempt).await
    }

    /// Releases; with `keep`, the lock is kept for that many ms.
    pub(super) async fn free(&mut self, letter: &str, keep: &str) -> bool {
        let keys = self.keys(letter);
        let mut arguments = self.in_time();
        arguments.extend([owner(letter), keep.to_owned()]);
        arguments.extend([""; 5].map(str::to_owned));
        text(&self.eval(&RELEASE, &keys, &arguments).await) == "1"
    }

    /// Abandons an owner.
    pub(super) async fn abandon(&mut self, letter: &str) {
        self.plain(&ABANDON, letter, &[]).await;
    }

    /// Raises a token, and returns the answer.
    pub(super) async fn raise(&mut self, letter: &str, token: u64) -> String {
        let answer = self.plain(&RAISE, letter, &[&token.to_string()]).await;
        text(&parts(answer)[0])
    }

    /// The first arguments of a script, without a margin, and of a request that is never late.
    pub(crate) fn in_time(&self) -> Vec<String> {
        let mut arguments = self.in_epoch();
        arguments.extend([String::new(), u64::MAX.to_string()]);
        arguments
    }

    async fn plain(&mut self, script: &str, letter: &str, own: &[&str]) -> Value {
        let mut arguments = self.in_time();
        arguments.push(owner(letter));
        arguments.extend(own.iter().map(|word| (*word).to_owned()));
        let keys = self.keys(letter);
        self.eval(script, &keys, &arguments).await
    }

    /// Changes the longest lease. Returns in how many µs grants begin again.
    pub(super) async fn set_longest(&mut self, micros: u64) -> u64 {
        self.set_up("0", &micros.to_string(), "").await
    }

    /// The same for everything that `init.lua` sets. `u64::MAX` if it is refused.
    pub(super) async fn set_up(&mut self, how: &str, longest: &str, quarantine: &str) -> u64 {
        let mut arguments = self.in_time();
        arguments.extend([how, longest, quarantine].map(str::to_owned));
        let keys = [self.epoch()];
        let answer = parts(self.eval(&INIT, &keys, &arguments).await);
        if text(&answer[0]) == "version" {
            return u64::MAX;
        }
        assert!(longest.is_empty() || text(&answer[1]) == longest, "{answer:?}");
        assert_eq!(text(&answer[2]), "on");
        text(&answer[3]).parse().unwrap()
    }

    /// A step of a first use: see open.lua.
    pub(super) async fn open(&mut self, witness: &str) {
        let mut arguments = self.in_time();
        arguments.extend(["own", witness].map(str::to_owned));
        let keys = [self.epoch()];
        self.eval(&OPEN, &keys, &arguments).await;
    }

    /// 1 renewed, 2 somebody else's, 0 gone; -1 refused.
    pub(super) async fn renew(&mut self, letter: &str, lease: u64) -> i64 {
        let keys = [self.key("lock", "a"), self.epoch()];
        let answer = self.eval(&RENEW, &keys, &[owner(letter), lease.to_string()]).await;
        text(&parts(answer)[0]).parse().unwrap_or(-1)
    }
}

/// The answer of a script that may grant.
fn told(answer: Value) -> Result<u64, String> {
    match answer {
        // The holder now, if it is more than a number.
        Value::BulkString(_) => text(&answer).parse().map_err(|_| text(&answer)),
        // A release that granted nothing.
        Value::Int(number) if number < 2 => Err(number.to_string()),
        Value::Int(number) => Ok(number as u64),
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

pub(super) fn above(token: u64, least: u64) -> Verdict {
    match token > least {
        true => Ok(()),
        false => Err(format!("token {token} came after {least}")),
    }
}

pub(super) fn far_ahead(now: u64) -> u64 {
    now + 2 * LONGEST
}
