//! One Redis whose scripts a test calls without a client, through a proxy that removes a guard.
//! Without a client, nothing hides what a script fails to refuse.

// Helpers of tests; the names say what they do.
#![allow(missing_docs)]

use ::redis::{Cmd, Value, aio::MultiplexedConnection};
use servers::{Change, Clock, Proxy, Redis, RedisOptions, Server as _};

/// The longest lease, in microseconds.
pub const LONGEST: u64 = 30_000_000;
pub const SECOND: u64 = 1_000_000;

pub struct Raw {
    pub server: Redis,
    pub proxy: Proxy,
    pub clock: Clock,
    pub link: MultiplexedConnection,
    /// Run id and replication id, as the server reports them to a client.
    pub identity: [String; 2],
    base: &'static str,
}

pub fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        Value::SimpleString(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Nil => String::new(),
        other => panic!("{other:?}"),
    }
}

pub fn parts(answer: Value) -> Vec<Value> {
    match answer {
        Value::Array(parts) => parts,
        other => panic!("{other:?}"),
    }
}

pub fn owner(letter: &str) -> String {
    letter.repeat(32)
}

pub fn evaluating(script: &str, keys: &[String], arguments: &[String]) -> Cmd {
    let mut command = ::redis::cmd("EVAL");
    command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
    command
}

impl Raw {
    /// Starts a server whose store grants at once. Its keys begin with `base`.
    pub async fn start(base: &'static str, options: RedisOptions, changes: &[Change<'_>]) -> Self {
        let clock = Clock::new().await.unwrap();
        let server = Redis::start(options.clock(&clock)).await.unwrap();
        let proxy = Proxy::changing(server.address(), changes).await.unwrap();
        let identity =
            [server.info("run_id").await.unwrap(), server.info("master_replid").await.unwrap()];
        let client = ::redis::Client::open(format!("redis://{}", proxy.address())).unwrap();
        let config = ::redis::AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let link = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let mut raw = Self { server, proxy, clock, link, identity, base };
        let [run, replid] = raw.identity.clone();
        // As after `init --first-use`.
        for (field, value) in [
            ("run", run),
            ("replid", replid),
            ("longest", LONGEST.to_string()),
            ("quarantine", "on".to_owned()),
            ("from", "0".to_owned()),
            ("span", LONGEST.to_string()),
            ("version", "1".to_owned()),
        ] {
            raw.note(field, &value).await;
        }
        raw
    }

    /// The first arguments of every script that may grant.
    pub fn in_epoch(&self) -> Vec<String> {
        let [run, replid] = self.identity.clone();
        vec![run, replid, LONGEST.to_string(), "on".to_owned()]
    }

    pub fn key(&self, word: &str, of: &str) -> String {
        format!("{}{word}:{of}", self.base)
    }

    pub fn epoch(&self) -> String {
        format!("{}epoch", self.base)
    }

    /// The keys of the name `a`, and of the owner with this letter.
    pub fn keys(&self, letter: &str) -> [String; 5] {
        let [lock, queue, entries] = ["lock", "queue", "entries"].map(|word| self.key(word, "a"));
        [self.epoch(), lock, queue, entries, self.key("gone", &owner(letter))]
    }

    pub async fn send(&mut self, command: &Cmd) -> Value {
        self.link.send_packed_command(command).await.unwrap().extract_error().unwrap()
    }

    pub async fn eval(&mut self, script: &str, keys: &[String], arguments: &[String]) -> Value {
        self.send(&evaluating(script, keys, arguments)).await
    }

    pub async fn say(&mut self, words: &[&str]) -> Value {
        let mut command = ::redis::cmd(words[0]);
        command.arg(&words[1..]);
        self.send(&command).await
    }

    /// Writes a field of the epoch record.
    pub async fn note(&mut self, field: &str, value: &str) {
        let epoch = self.epoch();
        self.say(&["HSET", &epoch, field, value]).await;
    }

    pub async fn now(&mut self) -> u64 {
        let time = parts(self.say(&["TIME"]).await);
        let [seconds, micros] = [0, 1].map(|at| text(&time[at]).parse::<u64>().unwrap());
        seconds * SECOND + micros
    }

    /// The record of the lock; empty where it is free.
    pub async fn record(&mut self) -> String {
        let key = self.key("lock", "a");
        text(&self.say(&["GET", &key]).await)
    }

    pub async fn number(&mut self) -> u64 {
        let record = self.record().await;
        record.split(' ').nth(1).map_or(0, |number| number.parse().unwrap())
    }

    /// How long the record of the lock stays, in milliseconds.
    pub async fn left(&mut self) -> u64 {
        let key = self.key("lock", "a");
        text(&self.say(&["PTTL", &key]).await).parse().unwrap_or(0)
    }

    /// Removes the record of the lock, as its expiry would.
    pub async fn forget(&mut self) {
        let key = self.key("lock", "a");
        self.say(&["DEL", &key]).await;
    }
}
