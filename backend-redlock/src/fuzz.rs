//! No URL and no node's reply makes the code panic.

use std::time::Duration;

use backend_redis::node::Value;
use lock_core::test_util::soup;
use proptest::{collection::vec, prelude::*};

use crate::{batch, builder::url, quorum::node::NodeAnswer, steps::admin};

const URLS: &str = "
    redlock:// redlocks:// host 127.0.0.1 [::1] :6379 , / ? & = % # user: secret@ @ node_timeout=
    clock_bound= timeout= prefix= 50ms longest_lease= quarantine=on ca= 1y
";
const RECORDS: &str = "\
    0000000000000000000000000000000f|00000000000000000000000000000000| |\n|1|0|label|busy|\
    granted";

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        soup(RECORDS.split('|')).prop_map(|text| Value::BulkString(text.into_bytes())),
        any::<i64>().prop_map(Value::Int),
        Just(Value::Nil),
    ];
    leaf.prop_recursive(3, 32, 8, |inner| vec(inner, 0..8).prop_map(Value::Array))
}

proptest! {
    #[test]
    fn urls(text in soup(URLS.split_whitespace())) {
        for scheme in ["", "redlock://", "redlock://a,b,c"] {
            let _ = url::parse(&format!("{scheme}{text}"));
        }
    }

    #[test]
    fn records(text in soup(RECORDS.split('|')), bytes: Vec<u8>) {
        for record in [text.as_bytes(), &bytes] {
            let _ = admin::read_record(record, Duration::ZERO);
        }
    }

    #[test]
    fn answers(word in soup(RECORDS.split('|')), parts in vec(value(), 0..8), releases in 0..9_usize, attempts in 0..9_usize) {
        let answer = NodeAnswer { word, parts, span: None };
        for at in 0..8 {
            let _ = (answer.number(at), answer.text(at));
        }
        if let Ok(numbers) = batch::read(&answer, [releases, attempts]) {
            prop_assert_eq!(numbers.len(), releases + attempts);
        }
    }
}
