//! One node of a quorum, called through its scripts. Their refusals are best tested here, where no
//! other node and no client makes up for them.

use std::{
    ops::{Deref, DerefMut},
    sync::LazyLock,
};

use backend_redis::node::Script;
use redis::Value;
use servers::{Change, RedisOptions};
pub(super) use verification::missing_guards::redis::{LONGEST, SECOND, owner, text};
use verification::missing_guards::{
    Setup,
    redis::{Raw, evaluating, parts},
};

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("../../../src/scripts/", $name, ".lua"))
    };
}

macro_rules! script {
    ($name:literal) => {
        LazyLock::new(|| Script::new(file!($name)))
    };
}

pub(super) static ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new(concat!(file!("acquire_fast"), file!("acquire"))));
/// For readers.
pub(super) static ACQUIRE_SHARED: LazyLock<Script> = script!("acquire");
pub(super) static BATCH: LazyLock<Script> = script!("batch");
pub(super) static FREE: LazyLock<Script> = script!("free");
static RENEW: LazyLock<Script> = script!("renew");
static WRITE: LazyLock<Script> = script!("write");

const BASE: &str = "leasehold-redlock:{0}:";
/// The clock bound, in microseconds.
pub(super) const BOUND: u64 = 3_000_000;

/// An attempt; times are of the node's clock, in microseconds.
#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) owner: &'static str,
    pub(super) lease: u64,
    pub(super) floor: u64,
    pub(super) proposed: u64,
    pub(super) number: u64,
    /// The time after which it is late.
    pub(super) late: u64,
    /// The client's estimate of the clock.
    pub(super) estimated: u64,
    /// Whether it wants a queue entry.
    pub(super) entry: bool,
    /// Whether it is a reader's.
    pub(super) shared: bool,
}

pub(super) struct Node(Raw);

impl Deref for Node {
    type Target = Raw;

    fn deref(&self) -> &Raw {
        &self.0
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut Raw {
        &mut self.0
    }
}

#[async_trait::async_trait]
impl Setup for Node {
    async fn start(changes: &[Change<'_>]) -> Self {
        Self(Raw::start(BASE, RedisOptions::new(), changes).await)
    }

    fn altered(&self) -> u64 {
        self.proxy.counters().altered
    }
}

impl Node {
    /// The waiter whose turn it is.
    pub(super) async fn turn(&mut self) -> String {
        let entries = self.key("entries", "a");
        let turn = text(&self.say(&["HGET", &entries, "turn"]).await);
        turn.split(' ').next().unwrap().to_owned()
    }

    /// Keeps the lock with this record.
    pub(super) async fn keep(&mut self, record: &str) {
        let lock = self.key("lock", "a");
        self.say(&["SET", &lock, record, "PX", "20000"]).await;
    }

    /// Writes a field among the entries.
    pub(super) async fn set_entry(&mut self, field: &str, value: &str) {
        let entries = self.key("entries", "a");
        self.say(&["HSET", &entries, field, value]).await;
    }

    /// Makes a queue entry of nobody, so that no attempt goes the short way.
    pub(super) async fn crowd(&mut self) {
        let until = self.now().await + 60 * SECOND;
        self.note("crowd", &until.to_string()).await;
        self.set_entry("nobody", "0 nowhere").await;
    }

    /// Removes all entries.
    pub(super) async fn scatter(&mut self) {
        let entries = self.key("entries", "a");
        self.say(&["DEL", &entries]).await;
    }

    /// An attempt without any reason to be refused.
    pub(super) async fn attempt(&mut self, owner: &'static str) -> Attempt {
        let now = self.now().await;
        Attempt {
            owner,
            lease: 20_000,
            floor: 0,
            proposed: now,
            number: 5,
            late: now + 60 * SECOND,
            estimated: now,
            entry: false,
            shared: false,
        }
    }

    /// The number if the node gives the lock, otherwise the word of its answer. The short way of
    /// acquire_fast.lua leaves all that it refuses to the rest of the script.
    pub(super) async fn ask(&mut self, attempt: &Attempt) -> Result<u64, String> {
        let command = self.asking(attempt);
        voted(&parts(self.send(&command).await))
    }

    /// The first arguments of a script that may grant.
    fn in_time(&self, deadline: u64) -> Vec<String> {
        let mut arguments = self.in_epoch();
        arguments.extend([String::new(), deadline.to_string()]);
        arguments
    }

    fn asking(&self, attempt: &Attempt) -> redis::Cmd {
        let mut arguments = self.in_time(attempt.late);
        arguments.extend([owner(attempt.owner), attempt.lease.to_string(), "label".to_owned()]);
        let Attempt { floor, proposed, number, late, estimated, shared, .. } = *attempt;
        let (script, mode) = if shared { (&ACQUIRE_SHARED, "r") } else { (&ACQUIRE, "") };
        arguments.push(floor.to_string());
        arguments.extend([proposed, BOUND, number, late].map(|part| part.to_string()));
        arguments.extend(["mark1".to_owned(), estimated.to_string()]);
        let channel = if attempt.entry { "channel" } else { "" };
        // The rank is the letter, so owners are queued by their letters.
        let rank = attempt.owner.as_bytes()[0].to_string();
        arguments.extend([channel.to_owned(), rank, mode.to_owned()]);
        evaluating(script.text(), &self.keys(attempt.owner), &arguments)
    }

    /// Takes the lock, which is free.
    pub(super) async fn taken(&mut self, owner: &'static str) -> Result<u64, String> {
        let attempt = self.attempt(owner).await;
        self.ask(&attempt).await
    }

    /// The same by a reader.
    pub(super) async fn shared(&mut self, owner: &'static str) -> Result<u64, String> {
        let attempt = Attempt { shared: true, ..self.attempt(owner).await };
        self.ask(&attempt).await
    }

    /// Makes an entry for the lock, which is held.
    pub(super) async fn queued(&mut self, owner: &'static str) -> Result<(), String> {
        let attempt = self.attempt(owner).await;
        self.waits(attempt).await
    }

    /// The same by a reader.
    pub(super) async fn queued_reader(&mut self, owner: &'static str) -> Result<(), String> {
        let attempt = Attempt { shared: true, ..self.attempt(owner).await };
        self.waits(attempt).await
    }

    async fn waits(&mut self, attempt: Attempt) -> Result<(), String> {
        match self.ask(&Attempt { entry: true, ..attempt }).await {
            Err(word) if word == "busy" => Ok(()),
            other => Err(format!("no queue entry: {other:?}")),
        }
    }

    /// The answer to a batch of these releases, and of this attempt or none.
    pub(super) async fn batch(&mut self, releases: &[&str], attempt: Option<&Attempt>) -> Value {
        let mut keys = vec![self.epoch()];
        keys.extend(releases.iter().chain(attempt.map(|_| &"")).map(|_| self.key("lock", "a")));
        let first = self.attempt("").await;
        let Attempt { lease, late, estimated, number, proposed, .. } = *attempt.unwrap_or(&first);
        let mut arguments = self.in_time(late);
        arguments.extend([BOUND, late, estimated, number, proposed].map(|part| part.to_string()));
        arguments.extend(["label".to_owned(), releases.len().to_string(), lease.to_string()]);
        arguments.extend(releases.iter().map(|letter| owner(letter)));
        arguments.extend(attempt.iter().flat_map(|it| [owner(it.owner), "mark1".to_owned()]));
        parts(self.eval(BATCH.text(), &keys, &arguments).await).remove(2)
    }

    fn freeing(&self, letter: &str, how: [&str; 4]) -> redis::Cmd {
        let mut arguments = vec![owner(letter)];
        let [keep, up_to, tombstone, leaves_queue] = how;
        arguments.extend([keep, up_to, leaves_queue, tombstone, "60000"].map(str::to_owned));
        evaluating(FREE.text(), &self.keys(letter), &arguments)
    }

    /// Whether the lock was held. `how`: ms to keep it, the last attempt whose record is freed, the
    /// last attempt to abandon, 1 to remove the entry.
    pub(super) async fn free(&mut self, owner: &str, how: [&str; 4]) -> bool {
        let command = self.freeing(owner, how);
        text(&parts(self.send(&command).await)[2]) == "1"
    }

    /// Frees a lock and makes an attempt, in one step, so that no time passes between.
    pub(super) async fn free_and_ask(
        &mut self,
        owner: &str,
        attempt: &Attempt,
    ) -> Result<u64, String> {
        let mut both = redis::pipe();
        both.atomic().add_command(self.freeing(owner, [""; 4])).add_command(self.asking(attempt));
        let answers: Vec<Value> = both.query_async(&mut self.link).await.unwrap();
        voted(&parts(answers[1].clone()))
    }

    /// 1 renewed, 2 somebody else's, 0 gone; -1 refused. `late` is the clock after which this clock
    /// is ahead.
    pub(super) async fn renew(&mut self, letter: &str, lease: u64, late: u64) -> i64 {
        let keys = [self.epoch(), self.key("lock", "a")];
        let arguments = [late.to_string(), owner(letter), lease.to_string()];
        let answer = parts(self.eval(RENEW.text(), &keys, &arguments).await);
        if text(&answer[0]) == "version" {
            return -1;
        }
        text(&parts(answer[2].clone())[0]).parse().unwrap()
    }

    /// Writes a number back, or raises it. `lead` is how far it may lead the clock, or empty.
    pub(super) async fn write(&mut self, letter: &str, number: u64, lead: &str) -> String {
        let keys = [self.epoch(), self.key("lock", "a")];
        let arguments = [owner(letter), number.to_string(), "mark1".to_owned(), lead.to_owned()];
        let answer = parts(self.eval(WRITE.text(), &keys, &arguments).await);
        format!("{} {}", text(&answer[0]), text(&answer[2]))
    }
}

fn voted(answer: &[Value]) -> Result<u64, String> {
    match text(&answer[0]).as_str() {
        "ours" => Ok(text(&answer[2]).parse().unwrap()),
        word => Err(word.to_owned()),
    }
}
