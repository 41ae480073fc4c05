//! Fuzz tests: no URL and no configuration makes a parser panic.

use lock_core::test_util::soup;
use proptest::prelude::*;

use crate::{Config, StoreUrl};

const WORDS: &str = "
    sqlite: memory: redis: rediss+sentinel: redlock: etcd: zookeeper: postgres: mysql: s3: az: migrate: both? old?
    from= to= %3A % & = // / ? # @ : , user secret host locks.db
";
const CONFIG: &str =
    "url = |lease = |call_timeout = |label = |\"|\"sqlite:a\"|\"10s\"|\n|[|]|{|}|=|a";

proptest! {
    #[test]
    fn urls(text in soup(WORDS.split_whitespace())) {
        if let Ok(url) = StoreUrl::try_from(text.as_str()) {
            let _ = (url.to_string(), format!("{url:?}"));
        }
        #[cfg(feature = "migrate")]
        let _ = crate::schemes::migrate::parse(&text);
    }

    #[test]
    fn configurations(text in soup(CONFIG.split('|'))) {
        let _ = toml::from_str::<Config>(&text);
        let _ = serde_json::from_str::<Config>(&text);
    }
}
