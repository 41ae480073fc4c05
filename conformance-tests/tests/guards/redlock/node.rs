//! One node of a quorum, asked by the scripts themselves: what each of them refuses shows best where no
//! other node and no client makes up for it.

use std::ops::{Deref, DerefMut};

use conformance_tests::kit::Proxy;
use redis::Value;

pub(crate) use super::super::raw::{LONGEST, SECOND, owner};
use super::super::{
    raw::{Raw, evaluating, parts, text},
    wire::Stage,
};

/// Put together as by `Script::in_epoch` of backend-redis.
pub(crate) const ACQUIRE_FAST: &str =
    include_str!("../../../../backend-redlock/src/scripts/acquire_fast.lua");
pub(crate) const ACQUIRE: &str = concat!(
    include_str!("../../../../backend-redlock/src/scripts/acquire_fast.lua"),
    "\n",
    include_str!("../../../../backend-redis/src/scripts/limits.lua"),
    "\n",
    include_str!("../../../../backend-redis/src/scripts/common.lua"),
    "\n",
    include_str!("../../../../backend-redlock/src/scripts/acquire.lua"),
);
pub(crate) const BATCH: &str = include_str!("../../../../backend-redlock/src/scripts/batch.lua");
pub(crate) const FREE: &str = include_str!("../../../../backend-redlock/src/scripts/free.lua");
const RENEW: &str = include_str!("../../../../backend-redlock/src/scripts/renew.lua");
const WRITE: &str = include_str!("../../../../backend-redlock/src/scripts/write.lua");

const BASE: &str = "leasehold-redlock:{0}:";
/// How far clocks may be apart, in microseconds.
pub(crate) const BOUND: u64 = 3_000_000;

/// The ways on which a node may give a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// That of `acquire_fast.lua`, which leaves the rest of the script to what it refuses.
    Short,
    /// The rest of it, since something was in the way.
    Long,
    /// As one of many, in `batch.lua`.
    Batch,
}

/// An attempt; times are of the node's clock, in microseconds.
#[derive(Clone)]
pub(crate) struct Attempt {
    pub(crate) owner: &'static str,
    pub(crate) lease: u64,
    pub(crate) floor: u64,
    pub(crate) proposed: u64,
    pub(crate) number: u64,
    /// From when on it is late.
    pub(crate) late: u64,
    /// What its client takes the clock to be.
    pub(crate) estimated: u64,
    /// Whether it wants a place.
    pub(crate) place: bool,
}

pub(crate) struct Node(Raw);

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
impl Stage for Node {
    async fn start(texts: &[(&str, &str)]) -> Self {
        Self(Raw::start(BASE, texts, &[ACQUIRE, BATCH, FREE, RENEW, WRITE]).await)
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

impl Node {
    /// Whose turn it is, of those who wait.
    pub(crate) async fn turn(&mut self) -> String {
        let places = self.key("places", "a");
        let turn = text(&self.say(&["HGET", &places, "turn"]).await);
        turn.split(' ').next().unwrap().to_owned()
    }

    /// Writes a field among the places.
    pub(crate) async fn note_place(&mut self, field: &str, value: &str) {
        let places = self.key("places", "a");
        self.say(&["HSET", &places, field, value]).await;
    }

    /// From now on somebody may wait, or be buried, so that no attempt goes the short way unlooked.
    pub(crate) async fn crowd(&mut self) {
        let until = self.now().await + 60 * SECOND;
        self.note("crowd", &until.to_string()).await;
    }

    /// Nobody waits any more.
    pub(crate) async fn scatter(&mut self) {
        let places = self.key("places", "a");
        self.say(&["DEL", &places]).await;
    }

    /// An attempt that nothing can be said against.
    pub(crate) async fn attempt(&mut self, owner: &'static str) -> Attempt {
        let now = self.now().await;
        Attempt {
            owner,
            lease: 20_000,
            floor: 0,
            proposed: now,
            number: 5,
            late: now + 60 * SECOND,
            estimated: now,
            place: false,
        }
    }

    /// The number that the node gives, if it does, and what it says otherwise.
    pub(crate) async fn ask(&mut self, way: Way, attempt: &Attempt) -> Result<u64, String> {
        match way {
            Way::Short => {}
            Way::Long => {
                self.crowd().await;
                self.note_place("nobody", "0 nowhere").await;
            }
            Way::Batch => return self.batch(&[], std::slice::from_ref(attempt)).await.1.remove(0),
        }
        let command = self.asking(attempt);
        voted(&parts(self.send(&command).await))
    }

    fn asking(&self, attempt: &Attempt) -> redis::Cmd {
        let mut arguments = self.in_epoch();
        arguments.extend([owner(attempt.owner), attempt.lease.to_string(), "label".to_owned()]);
        let Attempt { floor, proposed, number, late, estimated, .. } = *attempt;
        arguments.extend([floor, proposed, BOUND, number, late].map(|part| part.to_string()));
        arguments.extend(["mark1".to_owned(), estimated.to_string()]);
        let channel = if attempt.place { "channel" } else { "" };
        // A rank by the letter: those who come first stand first.
        let rank = attempt.owner.as_bytes()[0].to_string();
        arguments.extend([channel.to_owned(), rank, late.to_string(), String::new()]);
        evaluating(ACQUIRE, &self.keys(attempt.owner), &arguments)
    }

    /// Takes the lock, which is free.
    pub(crate) async fn taken(&mut self, owner: &'static str) -> Result<u64, String> {
        let attempt = self.attempt(owner).await;
        self.ask(Way::Short, &attempt).await
    }

    /// Enters a place for the lock, which is held.
    pub(crate) async fn placed(&mut self, owner: &'static str) -> Result<(), String> {
        let attempt = Attempt { place: true, ..self.attempt(owner).await };
        match self.ask(Way::Short, &attempt).await {
            Err(word) if word == "busy" => Ok(()),
            other => Err(format!("no place: {other:?}")),
        }
    }

    /// A batch: whether each release found its lock held, and what is said to each attempt. All
    /// have what the first attempt has, but for owner and lease.
    pub(crate) async fn batch(
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
            place: false,
        });
        let differ = attempts.iter().any(|attempt| attempt.lease != first.lease);
        let mut arguments = self.in_epoch();
        let common = [BOUND, first.late, first.estimated, first.number, first.proposed];
        arguments.extend(common.map(|part| part.to_string()));
        arguments.extend(["label".to_owned(), releases.len().to_string()]);
        arguments.push(if differ { String::new() } else { first.lease.to_string() });
        arguments.extend(releases.iter().map(|letter| owner(letter)));
        for attempt in attempts {
            arguments.extend([owner(attempt.owner), "mark1".to_owned()]);
            arguments.extend(differ.then(|| attempt.lease.to_string()));
        }
        arguments.extend([first.late.to_string(), String::new()]);
        let answer = parts(self.eval(BATCH, &keys, &arguments).await);
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
        arguments.extend(how.map(str::to_owned));
        arguments.push("60000".to_owned());
        evaluating(FREE, &self.keys(letter), &arguments)
    }

    /// Whether the lock was held. `how`: ms to keep it, the last attempt that is meant, the last
    /// attempt to bury, 1 to leave the place.
    pub(crate) async fn free(&mut self, owner: &str, how: [&str; 4]) -> bool {
        let command = self.freeing(owner, how);
        text(&parts(self.send(&command).await)[2]) == "1"
    }

    /// Frees a lock and makes an attempt, in one step: no time passes in between.
    pub(crate) async fn free_and_ask(
        &mut self,
        owner: &str,
        attempt: &Attempt,
    ) -> Result<u64, String> {
        let mut both = redis::pipe();
        both.atomic().add_command(self.freeing(owner, [""; 4])).add_command(self.asking(attempt));
        let answers: Vec<Value> = both.query_async(&mut self.link).await.unwrap();
        voted(&parts(answers[1].clone()))
    }

    /// 1 renewed, 2 somebody else's, 0 gone. `late`: the clock past which this one is ahead.
    pub(crate) async fn renew(&mut self, letter: &str, lease: u64, late: u64) -> i64 {
        let keys = [self.epoch(), self.key("lock", "a")];
        let arguments = [late.to_string(), owner(letter), lease.to_string()];
        let answer = parts(self.eval(RENEW, &keys, &arguments).await);
        text(&parts(answer[2].clone())[0]).parse().unwrap()
    }

    /// Writes a number back, or raises it. `lead`: how far it may lead the clock, or nothing.
    pub(crate) async fn write(&mut self, letter: &str, number: u64, lead: &str) -> String {
        let keys = [self.epoch(), self.key("lock", "a")];
        let arguments = [owner(letter), number.to_string(), "mark1".to_owned(), lead.to_owned()];
        let answer = parts(self.eval(WRITE, &keys, &arguments).await);
        format!("{} {}", text(&answer[0]), text(&answer[2]))
    }
}

fn voted(answer: &[Value]) -> Result<u64, String> {
    match text(&answer[0]).as_str() {
        "ours" => Ok(text(&answer[2]).parse().unwrap()),
        word => Err(word.to_owned()),
    }
}
