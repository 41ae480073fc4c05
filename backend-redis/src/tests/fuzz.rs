//! Nothing panics, whatever a URL, a server or a sentinel says.

use std::time::Duration;

use lock_core::test_util::soup;
use proptest::{
    collection::{hash_map, vec},
    prelude::*,
    sample::select,
};
use redis::Value;

use crate::{
    backend::admin,
    builder::url,
    connection::identity::{Identity, Limits},
    discovery::{sentinel, shards::Shards},
    keys::{Bucket, Keys},
    scripts::reply::{self, Reply},
    settings::Address,
    waiting::pushes,
};

const URLS: &str = "
    redis:// rediss:// unix: redis+sentinel:// rediss+sentinel:// redis+cluster:// rediss+cluster://
    host 127.0.0.1 [::1] :6379 , / master ? & = % %00 %ff # user: secret@ @ prefix= timeout= 5s
    longest_lease= 30s quarantine= on protocol= resp3 ca= cert= key= wait_replicas= wait_timeout=
    sentinel_username= sentinel_password= db=
";
const ANSWERS: &str = "\
    granted|busy|quarantine|settings|floor|set|stale|late|lease|exhausted|gone|on| |1|\
    0000000000000000000000000000000f|label|name|ip|port|config-epoch|?|host";
const INFO: &str = "\
    run_id:|master_replid:|role:|redis_mode:|redis_version:|cluster|sentinel|master|abc|\
    connected_slaves:|min_slaves_good_slaves:|maxmemory_policy:|\r\n|\n|:|noeviction";
const LIMITS: &[&str] =
    &["min-replicas-to-write", "min-replicas-max-lag", "cluster-node-timeout", "7"];

fn word() -> impl Strategy<Value = Value> {
    let words: Vec<_> = ANSWERS.split('|').collect();
    select(words).prop_map(|word| Value::BulkString(word.into()))
}

/// Any value that the redis crate may return.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => soup(ANSWERS.split('|')).prop_map(|text| Value::BulkString(text.into_bytes())),
        2 => word(),
        1 => vec(any::<u8>(), 0..40).prop_map(Value::BulkString),
        1 => soup(ANSWERS.split('|')).prop_map(Value::SimpleString),
        3 => any::<i64>().prop_map(Value::Int),
        1 => (0..20_000_i64).prop_map(Value::Int),
        1 => Just(Value::Nil),
        1 => any::<f64>().prop_map(Value::Double),
        1 => any::<bool>().prop_map(Value::Boolean),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| vec(inner, 0..6).prop_map(Value::Array))
}

/// An answer of the right shape, with parts that may be anything.
fn answer() -> impl Strategy<Value = Value> {
    (word(), vec(value(), 0..8)).prop_map(|(word, rest)| Value::Array([vec![word], rest].concat()))
}

/// Something similar to an answer to CLUSTER SLOTS.
fn slots() -> impl Strategy<Value = Value> {
    let node =
        (value(), value(), value()).prop_map(|(host, port, id)| Value::Array(vec![host, port, id]));
    let number = || prop_oneof![(0..20_000_i64).prop_map(Value::Int), value()];
    let range = (number(), number(), vec(node, 0..3))
        .prop_map(|(first, last, nodes)| Value::Array([vec![first, last], nodes].concat()));
    vec(range, 0..4).prop_map(Value::Array)
}

proptest! {
    #[test]
    fn urls(text in soup(URLS.split_whitespace())) {
        for scheme in ["", "redis://", "redis+sentinel://", "redis+cluster://h"] {
            let _ = url::parse(&format!("{scheme}{text}"), "");
        }
    }

    #[test]
    fn answers_of_scripts(value in prop_oneof![value(), answer()]) {
        let _ = (reply::number(&value), reply::text(&value), reply::token(&value));
        let _ = (reply::known_number(&value), reply::list(value.clone()));
        if let Ok(reply) = Reply::read(value) {
            let _ = reply.into_error(Duration::MAX);
        }
    }

    #[test]
    fn records_and_pushes(text in soup(ANSWERS.split('|')), bytes: Vec<u8>) {
        for record in [text.as_bytes(), &bytes] {
            let _ = (admin::read_record(record), pushes::parse(record));
            for keys in [Keys::new("p"), Keys::new(text.as_str())] {
                let _ = keys.name_of(Bucket::FIRST, record);
            }
        }
    }

    #[test]
    fn what_a_server_is(text in soup(INFO.split('|')), pairs in hash_map(soup(LIMITS), soup(LIMITS), 0..4)) {
        let _ = Identity::read(&text);
        Limits::read(&pairs);
    }

    #[test]
    fn shards(answer in prop_oneof![value(), slots()], slot: u16) {
        for asked in [Address::Tcp("a".into(), 1), Address::Tls("a".into(), 1)] {
            if let Ok(shards) = Shards::read(answer.clone(), &asked) {
                let _ = shards.owner(slot);
            }
        }
    }

    #[test]
    fn sentinels(address in value(), state in prop_oneof![value(), vec(value(), 0..8).prop_map(Value::Array)]) {
        let _ = sentinel::read_report(address, state);
    }
}
