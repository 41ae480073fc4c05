//! Redis as its scripts are sent to it.

use std::ops::{Deref, DerefMut};

use conformance_tests::kit::Proxy;
use redis::Value;

use super::super::{
    raw::{LONGEST, Raw, SECOND, evaluating, owner, parts, text},
    wire::{Stage, Verdict},
};

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("../../../../backend-redis/src/scripts/", $name, ".lua"))
    };
}

/// Put together as in `scripts.rs` of backend-redis.
macro_rules! script {
    ($($name:literal)+) => { concat!($(include_str!(concat!("../../../../backend-redis/src/scripts/", $name, ".lua")), "\n"),+) };
}

pub(crate) const LIMITS: &str = file!("limits");
pub(crate) const ACQUIRE: &str =
    script!("open" "take" "acquire_fast" "unpack_acquire" "limits" "common" "acquire");
pub(crate) const RELEASE: &str = script!(
    "release_fast" "open" "take" "release_next" "limits" "hand_on" "unpack_release" "common" "release"
);
pub(crate) const BATCH: &str = script!("batch");
const ABANDON: &str = script!("limits" "common" "abandon");
const RAISE: &str = script!("limits" "common" "raise");
const INIT: &str = script!("limits" "common" "init");
const RENEW: &str = script!("renew");

const FILES: &[&str] = &[
    file!("abandon"),
    file!("acquire"),
    file!("acquire_fast"),
    file!("batch"),
    file!("common"),
    file!("hand_on"),
    file!("init"),
    file!("open"),
    file!("raise"),
    file!("release"),
    file!("release_fast"),
    file!("release_next"),
    file!("renew"),
    file!("take"),
];

/// The ways on which the server may give a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// That of `take.lua`, which leaves the rest to what it refuses.
    Short,
    /// The rest of `acquire.lua`, since a queue was in the way.
    Long,
    /// As one of many, in `batch.lua`.
    Batch,
    /// Behind the release of the same process.
    Next,
    /// The same where a queue was in the way: by `hand_on.lua`, and by the rest of `release.lua` what that
    /// refuses.
    LongNext,
}

/// An attempt; times are of the server's clock, in microseconds.
#[derive(Clone)]
pub(crate) struct Attempt {
    pub(crate) owner: &'static str,
    pub(crate) lease: u64,
    pub(crate) floor: u64,
    /// From when on it is late.
    pub(crate) late: u64,
}

pub(crate) struct Server {
    raw: Raw,
    /// Whether a replica may be promoted, so that nobody's word is taken for who the server is.
    pub(crate) replicated: bool,
    /// Whether it has no memory left when a release comes.
    pub(crate) short_of_memory: bool,
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
impl Stage for Server {
    async fn start(texts: &[(&str, &str)]) -> Self {
        let raw = Raw::start("leasehold:{0}:", texts, FILES).await;
        Self { raw, replicated: false, short_of_memory: false }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

impl Server {
    /// An attempt that nothing can be said against.
    pub(crate) async fn attempt(&mut self, owner: &'static str) -> Attempt {
        let late = self.now().await + 60 * SECOND;
        Attempt { owner, lease: 20_000, floor: 0, late }
    }

    /// Enters an owner whose place is no more.
    pub(crate) async fn queue(&mut self, letter: &str) {
        let queue = self.key("queue", "a");
        self.say(&["RPUSH", &queue, &owner(letter)]).await;
    }

    /// Enters an owner that waits.
    pub(crate) async fn place(&mut self, letter: &str, floor: u64) {
        let until = self.now().await + 2 * SECOND;
        let places = self.key("places", "a");
        let place = format!("{until} 20000 {floor} channel label");
        self.say(&["HSET", &places, &owner(letter), &place]).await;
        self.queue(letter).await;
    }

    /// The token, if it is granted, and what is said otherwise.
    pub(crate) async fn ask(&mut self, way: Way, attempt: &Attempt) -> Result<u64, String> {
        if let Way::Long | Way::LongNext = way {
            self.queue("f").await;
        }
        let Attempt { owner: letter, lease, floor, late } = *attempt;
        let [lease, floor, late] = [lease, floor, late].map(|number| number.to_string());
        let (asker, label, channel) = (owner(letter), "label".to_owned(), "channel".to_owned());
        let margin = if self.replicated { "0" } else { "" };
        let packed = format!("{} {margin}", self.in_epoch().join(" ")).trim_end().to_owned();
        let [epoch, lock, queue, places, tombstone] = self.keys(letter);
        let answer = match way {
            Way::Short | Way::Long => {
                let keys = [epoch, lock, queue, places, tombstone];
                let arguments = [packed, late, asker, lease, label, floor];
                self.eval(ACQUIRE, &keys, &arguments).await
            }
            Way::Batch => {
                let mut arguments = self.in_epoch();
                arguments.extend(["0".to_owned(), label, asker, lease, late, margin.to_owned()]);
                self.eval(BATCH, &[epoch, lock, queue, tombstone], &arguments).await
            }
            Way::Next | Way::LongNext => {
                self.hold("e").await;
                let keys = [epoch, lock, queue, places, tombstone];
                let (holder, keep) = (owner("e"), String::new());
                let arguments = [packed, late, holder, keep, asker, lease, label, floor, channel];
                if self.short_of_memory {
                    self.say(&["CONFIG", "SET", "maxmemory", "1"]).await;
                }
                let release = evaluating(RELEASE, &keys, &arguments);
                let answer = self.link.send_packed_command(&release).await;
                answer.and_then(Value::extract_error).map_err(|error| error.to_string())?
            }
        };
        told(answer)
    }

    /// Makes an owner the holder.
    pub(crate) async fn hold(&mut self, letter: &str) {
        let lock = self.key("lock", "a");
        let record = format!("{} 1 0 label", owner(letter));
        self.say(&["SET", &lock, &record, "PX", "20000"]).await;
    }

    /// Takes the lock, which is free.
    pub(crate) async fn taken(&mut self, owner: &'static str) -> Result<u64, String> {
        let attempt = self.attempt(owner).await;
        self.ask(Way::Short, &attempt).await
    }

    /// Gives back; with `keep`, for a last while of so many ms. `batch`: as one of many.
    pub(crate) async fn free(&mut self, letter: &str, keep: &str, batch: bool) -> bool {
        let [epoch, lock, queue, places, tombstone] = self.keys(letter);
        let late = (self.now().await + 60 * SECOND).to_string();
        let answer = if batch {
            let mut arguments = self.in_epoch();
            let label = "label".to_owned();
            arguments.extend(["1".to_owned(), label, owner(letter), late, String::new()]);
            parts(self.eval(BATCH, &[epoch, lock, queue], &arguments).await).remove(0)
        } else {
            let mut arguments = vec![self.in_epoch().join(" "), late, owner(letter)];
            if !keep.is_empty() {
                let none = ["", "0", "", "0", ""].map(str::to_owned);
                arguments.push(keep.to_owned());
                arguments.extend(none);
            }
            self.eval(RELEASE, &[epoch, lock, queue, places, tombstone], &arguments).await
        };
        text(&answer) == "1"
    }

    /// Makes sure that an owner has nothing.
    pub(crate) async fn bury(&mut self, letter: &str) {
        self.plain(ABANDON, letter, &[]).await;
    }

    /// Raises a token; says what became of it.
    pub(crate) async fn raise(&mut self, letter: &str, token: u64) -> String {
        let answer = self.plain(RAISE, letter, &[&token.to_string()]).await;
        text(&parts(answer)[0])
    }

    async fn plain(&mut self, script: &str, letter: &str, own: &[&str]) -> Value {
        let mut arguments = self.in_epoch();
        arguments.push(owner(letter));
        arguments.extend(own.iter().map(|word| (*word).to_owned()));
        arguments.extend([u64::MAX.to_string(), String::new()]);
        let keys = self.keys(letter);
        self.eval(script, &keys, &arguments).await
    }

    /// Changes the longest lease; says in how long it grants again.
    pub(crate) async fn set_longest(&mut self, micros: u64) -> u64 {
        self.set_up("0", &micros.to_string(), "").await
    }

    /// The same for all that `init.lua` sets.
    pub(crate) async fn set_up(&mut self, how: &str, longest: &str, quarantine: &str) -> u64 {
        let mut arguments = self.in_epoch();
        arguments.extend([how, longest, quarantine].map(str::to_owned));
        arguments.extend([u64::MAX.to_string(), String::new()]);
        let keys = [self.epoch()];
        let answer = parts(self.eval(INIT, &keys, &arguments).await);
        assert!(longest.is_empty() || text(&answer[1]) == longest, "{answer:?}");
        assert_eq!(text(&answer[2]), "on");
        text(&answer[3]).parse().unwrap()
    }

    /// 1 renewed, 2 somebody else's, 0 gone.
    pub(crate) async fn renew(&mut self, letter: &str, lease: u64) -> i64 {
        let keys = [self.key("lock", "a"), self.epoch()];
        let answer = self.eval(RENEW, &keys, &[owner(letter), lease.to_string()]).await;
        text(&parts(answer)[0]).parse().unwrap()
    }
}

/// What a script that may grant says.
fn told(answer: Value) -> Result<u64, String> {
    match answer {
        // Who has the lock now, if it is more than a number.
        Value::BulkString(_) => text(&answer).parse().map_err(|_| text(&answer)),
        // A release that granted nothing, or -1 of a batch.
        Value::Int(number) if number < 2 => Err(number.to_string()),
        Value::Int(number) => Ok(number as u64),
        Value::Array(mut said) => match &said[0] {
            Value::BulkString(word) if word == b"granted" => Ok(text(&said[1]).parse().unwrap()),
            // Of a release, and what is said to the next besides.
            Value::Int(_) if said.len() > 1 => told(said.remove(1)),
            Value::Int(_) => told(said.remove(0)),
            word => Err(text(word)),
        },
        other => panic!("{other:?}"),
    }
}

pub(crate) fn above(token: u64, least: u64) -> Verdict {
    match token > least {
        true => Ok(()),
        false => Err(format!("token {token} came after {least}")),
    }
}

pub(crate) fn far_ahead(now: u64) -> u64 {
    now + 2 * LONGEST
}
