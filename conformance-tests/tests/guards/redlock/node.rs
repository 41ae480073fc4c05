//! One node of a quorum, asked by the scripts themselves: what each of them refuses shows best where no
//! other node and no client makes up for it.

use conformance_tests::kit::{Clock, Proxy, Redis, RedisOptions, Server as _};
use redis::{Value, aio::MultiplexedConnection};

use super::super::wire::Stage;

/// Put together as by `Script::in_epoch` of backend-redis.
const ACQUIRE: &str = concat!(
    include_str!("../../../../backend-redlock/src/scripts/acquire_fast.lua"),
    "\n",
    include_str!("../../../../backend-redis/src/scripts/common.lua"),
    "\n",
    include_str!("../../../../backend-redlock/src/scripts/acquire.lua"),
);
const BATCH: &str = include_str!("../../../../backend-redlock/src/scripts/batch.lua");
const FREE: &str = include_str!("../../../../backend-redlock/src/scripts/free.lua");
const RENEW: &str = include_str!("../../../../backend-redlock/src/scripts/renew.lua");
const WRITE: &str = include_str!("../../../../backend-redlock/src/scripts/write.lua");

const BASE: &str = "leasehold-redlock:{0}:";
/// The longest lease, and how far clocks may be apart, in microseconds.
pub(crate) const LONGEST: u64 = 30_000_000;
pub(crate) const BOUND: u64 = 3_000_000;
pub(crate) const SECOND: u64 = 1_000_000;

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

pub(crate) struct Node {
    _server: Redis,
    proxy: Proxy,
    pub(crate) clock: Clock,
    link: MultiplexedConnection,
    /// Run id and replication id.
    identity: [String; 2],
}

#[async_trait::async_trait]
impl Stage for Node {
    async fn start(texts: &[(&str, &str)]) -> Self {
        for (from, _) in texts {
            let all =
                [ACQUIRE, BATCH, FREE, RENEW, WRITE].map(|script| script.matches(from).count());
            assert_eq!(all.iter().sum::<usize>(), 1, "{from:?} is not one guard");
        }
        let clock = Clock::new().await.unwrap();
        let server = Redis::start(RedisOptions::new().clock(&clock)).await.unwrap();
        let proxy = Proxy::altering(server.address(), texts).await.unwrap();
        let identity =
            [server.info("run_id").await.unwrap(), server.info("master_replid").await.unwrap()];
        let client = redis::Client::open(format!("redis://{}", proxy.address())).unwrap();
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let link = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
        let mut node = Self { _server: server, proxy, clock, link, identity };
        let [run, replid] = node.identity.clone();
        // As after `init --first-use`.
        for (field, value) in [
            ("run", run),
            ("replid", replid),
            ("longest", LONGEST.to_string()),
            ("quarantine", "on".to_owned()),
            ("from", "0".to_owned()),
            ("span", LONGEST.to_string()),
        ] {
            node.note(field, &value).await;
        }
        node
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

fn key(word: &str, of: &str) -> String {
    format!("{BASE}{word}:{of}")
}

fn epoch() -> String {
    format!("{BASE}epoch")
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

pub(crate) fn owner(letter: &str) -> String {
    letter.repeat(32)
}

impl Node {
    pub(crate) async fn say(&mut self, words: &[&str]) -> Value {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        self.link.send_packed_command(&command).await.unwrap().extract_error().unwrap()
    }

    /// Writes a field of the epoch record.
    pub(crate) async fn note(&mut self, field: &str, value: &str) {
        self.say(&["HSET", &epoch(), field, value]).await;
    }

    pub(crate) async fn now(&mut self) -> u64 {
        let Value::Array(time) = self.say(&["TIME"]).await else { panic!("no time") };
        let [seconds, micros] = [0, 1].map(|at| text(&time[at]).parse::<u64>().unwrap());
        seconds * SECOND + micros
    }

    /// The record of the lock; empty where it is free.
    pub(crate) async fn record(&mut self) -> String {
        text(&self.say(&["GET", &key("lock", "a")]).await)
    }

    pub(crate) async fn number(&mut self) -> u64 {
        let record = self.record().await;
        record.split(' ').nth(1).map_or(0, |number| number.parse().unwrap())
    }

    /// How long the record stays, in milliseconds.
    pub(crate) async fn left(&mut self) -> u64 {
        text(&self.say(&["PTTL", &key("lock", "a")]).await).parse().unwrap_or(0)
    }

    /// Whose turn it is, of those who wait.
    pub(crate) async fn turn(&mut self) -> String {
        let turn = text(&self.say(&["HGET", &key("places", "a"), "turn"]).await);
        turn.split(' ').next().unwrap().to_owned()
    }

    /// Writes a field among the places.
    pub(crate) async fn note_place(&mut self, field: &str, value: &str) {
        self.say(&["HSET", &key("places", "a"), field, value]).await;
    }

    /// From now on somebody may wait, or be buried, so that no attempt goes the short way unlooked.
    pub(crate) async fn crowd(&mut self) {
        let until = self.now().await + 60 * SECOND;
        self.note("crowd", &until.to_string()).await;
    }

    /// The lock's record is gone, as after its time.
    pub(crate) async fn forget(&mut self) {
        self.say(&["DEL", &key("lock", "a")]).await;
    }

    /// Nobody waits any more.
    pub(crate) async fn scatter(&mut self) {
        self.say(&["DEL", &key("places", "a")]).await;
    }

    async fn eval(&mut self, script: &str, keys: &[String], arguments: &[String]) -> Vec<Value> {
        let command = evaluating(script, keys, arguments);
        let answer = self.link.send_packed_command(&command).await.unwrap();
        parts(answer.extract_error().unwrap())
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
        let answer = self.link.send_packed_command(&command).await.unwrap();
        voted(&parts(answer.extract_error().unwrap()))
    }

    fn in_epoch(&self) -> Vec<String> {
        let [run, replid] = self.identity.clone();
        vec![run, replid, LONGEST.to_string(), "on".to_owned()]
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
        evaluating(ACQUIRE, &keys(attempt.owner), &arguments)
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
        let mut keys = vec![epoch()];
        keys.extend(releases.iter().map(|_| key("lock", "a")));
        keys.extend(attempts.iter().map(|_| key("lock", "a")));
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
        let answer = self.eval(BATCH, &keys, &arguments).await;
        let numbers: Vec<i64> = match &answer[2] {
            Value::Array(numbers) => {
                numbers.iter().map(|number| text(number).parse().unwrap()).collect()
            }
            other => panic!("{other:?}"),
        };
        let (freed, given) = numbers.split_at(releases.len());
        let given = given.iter().map(|number| match number {
            -1 => Err("declined".to_owned()),
            number => Ok(*number as u64),
        });
        (freed.to_vec(), given.collect())
    }

    /// Whether the lock was held. `how`: ms to keep it, the last attempt that is meant, the last
    /// attempt to bury, 1 to leave the place.
    pub(crate) async fn free(&mut self, owner: &str, how: [&str; 4]) -> bool {
        let command = freeing(owner, how);
        let answer = self.link.send_packed_command(&command).await.unwrap();
        text(&parts(answer.extract_error().unwrap())[2]) == "1"
    }

    /// Frees a lock and makes an attempt, in one step: no time passes in between.
    pub(crate) async fn free_and_ask(
        &mut self,
        owner: &str,
        attempt: &Attempt,
    ) -> Result<u64, String> {
        let mut both = redis::pipe();
        both.atomic().add_command(freeing(owner, [""; 4])).add_command(self.asking(attempt));
        let answers: Vec<Value> = both.query_async(&mut self.link).await.unwrap();
        voted(&parts(answers[1].clone()))
    }

    /// 1 renewed, 2 somebody else's, 0 gone. `late`: the clock past which this one is ahead.
    pub(crate) async fn renew(&mut self, letter: &str, lease: u64, late: u64) -> i64 {
        let keys = [epoch(), key("lock", "a")];
        let arguments = [late.to_string(), owner(letter), lease.to_string()];
        let answer = self.eval(RENEW, &keys, &arguments).await;
        text(&parts(answer[2].clone())[0]).parse().unwrap()
    }

    /// Writes a number back, or raises it. `lead`: how far it may lead the clock, or nothing.
    pub(crate) async fn write(&mut self, letter: &str, number: u64, lead: &str) -> String {
        let keys = [epoch(), key("lock", "a")];
        let arguments = [owner(letter), number.to_string(), "mark1".to_owned(), lead.to_owned()];
        let answer = self.eval(WRITE, &keys, &arguments).await;
        format!("{} {}", text(&answer[0]), text(&answer[2]))
    }
}

fn keys(letter: &str) -> [String; 5] {
    let places = ["lock", "queue", "places"].map(|word| key(word, "a"));
    let [lock, queue, places] = places;
    [epoch(), lock, queue, places, key("gone", &owner(letter))]
}

fn evaluating(script: &str, keys: &[String], arguments: &[String]) -> redis::Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
    command
}

fn freeing(letter: &str, how: [&str; 4]) -> redis::Cmd {
    let mut arguments = vec![owner(letter)];
    arguments.extend(how.map(str::to_owned));
    arguments.push("60000".to_owned());
    evaluating(FREE, &keys(letter), &arguments)
}

fn parts(answer: Value) -> Vec<Value> {
    match answer {
        Value::Array(parts) => parts,
        other => panic!("{other:?}"),
    }
}

fn voted(answer: &[Value]) -> Result<u64, String> {
    match text(&answer[0]).as_str() {
        "ours" => Ok(text(&answer[2]).parse().unwrap()),
        word => Err(word.to_owned()),
    }
}
