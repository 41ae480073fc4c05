//! The parsers do not panic for any URL, key or value.

use lock_core::{FencingToken, Instant, OwnerId, test_util::soup};
use proptest::prelude::*;

use crate::{
    builder,
    keys::{
        entry::{QueueEntry, StoredEntry},
        layout::KeyLayout,
        settings::{Record, Settings},
    },
};

const URLS: &str = "
    etcd:// host 127.0.0.1 [::1] [ ] :2379 :80 , / ? & = % %ff # user: secret@ @ prefix= timeout= 5s
    ca= cert= key= domain=
";
const KEYS: &[&str] =
    &["p/", "%25", "%2F", "%", "/", "name", "1f", "01f", "%leasehold/", "settings", "0", "-1"];
const VALUES: &str = r#"
    { } [ ] : , " "owner": "0000000000000000000000000000000f" "label": "a" "offset": "granted":
    "kept": true false null "longest_lease_micros": "quarantine":
"#;

proptest! {
    #[test]
    fn urls(text in soup(URLS.split_whitespace())) {
        for scheme in ["", "etcd://", "etcd://h?"] {
            let _ = builder::parse(&format!("{scheme}{text}"));
        }
    }

    #[test]
    fn keys(text in soup(KEYS)) {
        for prefix in ["", "p/"] {
            let layout = KeyLayout::new(prefix);
            for key in [text.clone(), format!("{prefix}{text}")] {
                if let Some(read) = layout.read(&key) {
                    prop_assert_eq!(layout.entry(&read.name, read.mode, read.number), key);
                }
            }
        }
    }

    #[test]
    fn values(text in soup(VALUES.split_whitespace()), (lease, created) in any::<(i64, i64)>()) {
        let _ = serde_json::from_str::<Record>(&text);
        let entry = serde_json::from_str::<QueueEntry>(&text).ok();
        let seen = StoredEntry { key: "k".into(), lease, created, modified: created, entry };
        let _ = (seen.token(), seen.holder(std::time::Duration::MAX), seen.belongs_to(OwnerId::from_bits(1)));
    }

    /// A record that other programs may have written, and the numbers of a faulty server.
    #[test]
    fn settings(
        (offset, least, longest) in any::<(i64, i64, u64)>(),
        (revision, at, floor) in any::<(i64, i64, u64)>(),
    ) {
        let mut record = Record::new(None);
        (record.offset, record.least, record.longest_lease_micros) = (offset, least, longest);
        let confirmed_at = Instant::from_nanos(0);
        let settings = Settings { record, revision, now: revision, confirmed_at };
        let floor = FencingToken::new(floor >> 11).unwrap_or(FencingToken::ZERO);
        let _ = (settings.raised_offset(at, floor), settings.record.longest_lease(), settings.is_old());
    }
}
