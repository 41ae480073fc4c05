//! One Redis, asked by a script itself, behind a proxy that leaves something out of it: what a script refuses
//! shows best where no client makes up for it.

use conformance_tests::kit::{Clock, Proxy, Redis, RedisOptions, Server as _};
use redis::{Cmd, Value, aio::MultiplexedConnection};

/// The longest lease, in microseconds.
pub(crate) const LONGEST: u64 = 30_000_000;
pub(crate) const SECOND: u64 = 1_000_000;

pub(crate) struct Raw {
    _server: Redis,
    pub(crate) proxy: Proxy,
    pub(crate) clock: Clock,
    pub(crate) link: MultiplexedConnection,
    /// Run id and replication id, as a client is told.
    pub(crate) identity: [String; 2],
    base: &'static str,
}

pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        Value::SimpleString(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Nil => String::new(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn parts(answer: Value) -> Vec<Value> {
    match answer {
        Value::Array(parts) => parts,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn owner(letter: &str) -> String {
    letter.repeat(32)
}

pub(crate) fn evaluating(script: &str, keys: &[String], arguments: &[String]) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
    command
}

impl Raw {
    /// A server whose store grants at once; `files` are those of the scripts that are sent to it, each of the
    /// texts stands in one of them and once.
    pub(crate) async fn start(base: &'static str, texts: &[(&str, &str)], files: &[&str]) -> Self {
        for (from, _) in texts {
            let count: usize = files.iter().map(|file| file.matches(from).count()).sum();
            assert_eq!(count, 1, "{from:?} is not one guard");
        }
        let clock = Clock::new().await.unwrap();
        let server = Redis::start(RedisOptions::new().clock(&clock)).await.unwrap();
        let proxy = Proxy::altering(server.address(), texts).await.unwrap();
        let identity =
            [server.info("run_id").await.unwrap(), server.info("master_replid").await.unwrap()];
        let client = redis::Client::open(format!("redis://{}", proxy.address())).unwrap();
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let link = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let mut raw = Self { _server: server, proxy, clock, link, identity, base };
        let [run, replid] = raw.identity.clone();
        // As after `init --first-use`.
        for (field, value) in [
            ("run", run),
            ("replid", replid),
            ("longest", LONGEST.to_string()),
            ("quarantine", "on".to_owned()),
            ("from", "0".to_owned()),
            ("span", LONGEST.to_string()),
        ] {
            raw.note(field, &value).await;
        }
        raw
    }

    /// What scripts that may grant are told first.
    pub(crate) fn in_epoch(&self) -> Vec<String> {
        let [run, replid] = self.identity.clone();
        vec![run, replid, LONGEST.to_string(), "on".to_owned()]
    }

    pub(crate) fn key(&self, word: &str, of: &str) -> String {
        format!("{}{word}:{of}", self.base)
    }

    pub(crate) fn epoch(&self) -> String {
        format!("{}epoch", self.base)
    }

    /// The keys of the name `a` and of an owner.
    pub(crate) fn keys(&self, letter: &str) -> [String; 5] {
        let [lock, queue, places] = ["lock", "queue", "places"].map(|word| self.key(word, "a"));
        [self.epoch(), lock, queue, places, self.key("gone", &owner(letter))]
    }

    pub(crate) async fn send(&mut self, command: &Cmd) -> Value {
        self.link.send_packed_command(command).await.unwrap().extract_error().unwrap()
    }

    pub(crate) async fn eval(
        &mut self,
        script: &str,
        keys: &[String],
        arguments: &[String],
    ) -> Value {
        self.send(&evaluating(script, keys, arguments)).await
    }

    pub(crate) async fn say(&mut self, words: &[&str]) -> Value {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        self.send(&command).await
    }

    /// Writes a field of the epoch record.
    pub(crate) async fn note(&mut self, field: &str, value: &str) {
        let epoch = self.epoch();
        self.say(&["HSET", &epoch, field, value]).await;
    }

    pub(crate) async fn now(&mut self) -> u64 {
        let time = parts(self.say(&["TIME"]).await);
        let [seconds, micros] = [0, 1].map(|at| text(&time[at]).parse::<u64>().unwrap());
        seconds * SECOND + micros
    }

    /// The record of the lock; empty where it is free.
    pub(crate) async fn record(&mut self) -> String {
        let key = self.key("lock", "a");
        text(&self.say(&["GET", &key]).await)
    }

    pub(crate) async fn number(&mut self) -> u64 {
        let record = self.record().await;
        record.split(' ').nth(1).map_or(0, |number| number.parse().unwrap())
    }

    /// How long the record stays, in milliseconds.
    pub(crate) async fn left(&mut self) -> u64 {
        let key = self.key("lock", "a");
        text(&self.say(&["PTTL", &key]).await).parse().unwrap_or(0)
    }

    /// The lock's record is gone, as after its time.
    pub(crate) async fn forget(&mut self) {
        let key = self.key("lock", "a");
        self.say(&["DEL", &key]).await;
    }
}
