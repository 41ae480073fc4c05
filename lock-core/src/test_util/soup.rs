//! Text that a parser nearly understands, for fuzz tests: the parser's words in random order, cut,
//! repeated, and mixed with random characters.
//!
//! `PROPTEST_CASES=1000000` makes the fuzz tests longer.

use proptest::{collection::vec, prelude::*, sample::select};

fn number() -> impl Strategy<Value = String> {
    let edges = select(vec![0, 1, 65_535, 65_536, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX]);
    let number = prop_oneof![edges, any::<u64>()].prop_map(|number| number.to_string());
    prop_oneof![4 => number.clone(), 1 => number.prop_map(|number| format!("-{number}")), 1 => "[0-9]{20,40}"]
}

/// A random text of these words, numbers and other characters.
pub fn soup(words: impl IntoIterator<Item: ToString>) -> impl Strategy<Value = String> {
    let words: Vec<_> = words.into_iter().map(|word| word.to_string()).collect();
    let part = prop_oneof![
        8 => select(words),
        3 => number(),
        1 => any::<String>(),
        1 => "[ -~]{0,4}",
    ];
    let times = prop_oneof![30 => Just(1), 1 => 2..2_000_usize];
    (vec(part, 0..16), times).prop_map(|(parts, times)| parts.concat().repeat(times))
}
