//! Fuzz tests: no text makes a parser panic, and accepted values are within their limits.

use std::time::Duration;

use proptest::prelude::*;

use crate::{
    ClientOptions, FencingToken, Instant, LockName, OwnerId, OwnerLabel, check_token, drift_margin,
    test_util::soup,
};

const WORDS: &str = "\
    a|+000000000000000000000000000000f|/|%|\u{0}|\n|\u{7f}|\u{85}|ß|00ff|\
    0000000000000000000000000000000f";
const OPTIONS: &str =
    r#"{|}|:|,|"|"lease":|"call_timeout":|"label":|"10s"|"1min 30s"|s|ms|years|\u0000|[|]|null"#;

proptest! {
    #[test]
    fn names_labels_and_owners(text in soup(WORDS.split('|'))) {
        if let Ok(name) = LockName::new(text.as_str()) {
            prop_assert!((1..=255).contains(&name.as_str().len()));
            prop_assert!(!name.as_str().contains(char::is_control));
        }
        if let Ok(label) = OwnerLabel::new(text.as_str()) {
            prop_assert!(!label.as_str().contains(char::is_control));
        }
        if let Ok(owner) = text.parse::<OwnerId>() {
            prop_assert_eq!(owner.to_string(), text.to_lowercase());
        }
    }

    #[test]
    fn options(text in soup(OPTIONS.split('|'))) {
        let _ = serde_json::from_str::<ClientOptions>(&text);
        let _ = serde_json::from_str::<FencingToken>(&text);
    }

    #[test]
    fn numbers(number: u64, other: u64) {
        if let Some(token) = FencingToken::new(number) {
            prop_assert!(token <= FencingToken::MAX);
            let _ = check_token(token, other, Duration::from_micros(number));
        }
        let (at, span) = (Instant::from_nanos(number), Duration::from_millis(other));
        prop_assert!(at + span >= at && at - span <= at);
        prop_assert!(drift_margin(span) <= span + Duration::from_millis(2));
    }
}
