//! Whatever URL or configuration comes in, nothing panics.

use proptest::prelude::*;

use crate::{Config, StoreUrl};

#[path = "../../lock-core/tests/support/soup.rs"]
mod soup;

const WORDS: &[&str] = &[
    "sqlite:",
    "memory:",
    "redis:",
    "rediss+sentinel:",
    "redlock:",
    "etcd:",
    "postgres:",
    "mysql:",
    "migrate:",
    "both?",
    "old?",
    "from=",
    "to=",
    "%3A",
    "%",
    "&",
    "=",
    "//",
    "/",
    "?",
    "#",
    "@",
    ":",
    ",",
    "user",
    "secret",
    "host",
    "locks.db",
];
const CONFIG: &[&str] = &[
    "url = ",
    "lease = ",
    "call_timeout = ",
    "label = ",
    "\"",
    "\"sqlite:a\"",
    "\"10s\"",
    "\n",
    "[",
    "]",
    "{",
    "}",
    "=",
    "a",
];

proptest! {
    #[test]
    fn urls(text in soup::soup(WORDS)) {
        if let Ok(url) = StoreUrl::try_from(text.as_str()) {
            let _ = (url.to_string(), format!("{url:?}"));
        }
        #[cfg(feature = "migrate")]
        let _ = crate::schemes::migrate::parse(&text);
    }

    #[test]
    fn configurations(text in soup::soup(CONFIG)) {
        let _ = toml::from_str::<Config>(&text);
        let _ = serde_json::from_str::<Config>(&text);
    }
}
