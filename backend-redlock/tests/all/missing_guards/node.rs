//! One node of a quorum, called through its scripts. Their refusals are best tested here, where no
//! other node and no client makes up for them.

use std::{
    ops::{Deref, DerefMut},
    sync::LazyLock,
};

use backend_redis::node::Script;
use redis::Value;
use servers::Change;
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

/// The ways in which a node may give a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// That of `acquire_fast.lua`, which leaves all it refuses to the rest of the script.
    Short,
    /// The rest of the script, since there is a queue entry.
    Long,
    /// As one of many, in `batch.lua`.
    Batch,
}

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
        Self(Raw::start(BASE, changes).await)
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

    /// From now on there may be entries and tombstones, so no attempt goes the short way without a
    /// check.
    pub(super) async fn crowd(&mut self) {
        let until = self.now().await + 60 * SECOND;
        self.note("crowd", &until.to_string()).await;
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

    /// The number if the node gives the lock, otherwise the word of its answer.
    pub(super) async fn ask(&mut self, way: Way, attempt: &Attempt) -> Result<u64, String> {
        match way {
            Way::Short => {}
            Way::Long => {
                self.crowd().await;
                self.set_entry("nobody", "0 nowhere").await;
            }
            Way::Batch => return self.batch(&[], std::slice::from_ref(attempt)).await.1.remove(0),
        }
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
        self.ask(Way::Short, &attempt).await
    }

    /// The same by a reader.
    pub(super) async fn shared(&mut self, owner: &'static str) -> Result<u64, String> {
        let attempt = Attempt { shared: true, ..self.attempt(owner).await };
        self.ask(Way::Short, &attempt).await
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
        match self.ask(Way::Short, &Attempt { entry: true, ..attempt }).await {
            Err(word) if word == "busy" => Ok(()),
            other => Err(format!("no queue entry: {other:?}")),
        }
    }

    /// A batch: whether each release found its lock held, and the answer to each attempt. All
    /// attempts have the values of the first, except owner and lease.
    pub(super) async fn batch(
        &mut self,
        releases: &[&str],
        attempts: &[Attempt],
    ) -> (Vec<i64>, Vec<Result<u64, String>>) {
        let mut keys = vec![self.epoch()];
        keys.extend(releases.iter().map(|_| self.key("lock", "a")));
        keys.extend(attempts.iter().map(|_| self.key("lock", "a")));
        let now = self.now().await;
        let first = attempts.first().cloned().unwrap_or(Attempt {
            owner: "",
            lease: 0,
            floor: 0,
            proposed: now,
            number: 0,
            late: now,
            estimated: now,
            entry: false,
            shared: false,
        });
        let differ = attempts.iter().any(|attempt| attempt.lease != first.lease);
        let mut arguments = self.in_time(first.late);
        let common = [BOUND, first.late, first.estimated, first.number, first.proposed];
        arguments.extend(common.map(|part| part.to_string()));
        arguments.extend(["label".to_owned(), releases.len().to_string()]);
        arguments.push(if differ { String::new() } else { first.lease.to_string() });
        arguments.extend(releases.iter().map(|letter| owner(letter)));
        for attempt in attempts {
            arguments.extend([owner(attempt.owner), "mark1".to_owned()]);
            arguments.extend(differ.then(|| attempt.lease.to_string()));
        }
        let answer = parts(self.eval(BATCH.text(), &keys, &arguments).await);
        let numbers: Vec<i64> = match &answer[2] {
            Value::Array(numbers) => {
                numbers.iter().map(|number| text(number).parse().unwrap()).collect()
            }
            // All releases found their locks held, and all attempts have this number.
            all => {
                let number = text(all).parse().unwrap();
                let given = attempts.iter().map(|_| number);
                releases.iter().map(|_| 1).chain(given).collect()
            }
        };
        let (freed, given) = numbers.split_at(releases.len());
        let given = given.iter().map(|number| match number {
            -1 => Err("declined".to_owned()),
            number => Ok(*number as u64),
        });
        (freed.to_vec(), given.collect())
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
