//! No URL and no row makes the code panic.

use std::time::Duration;

use lock_core::test_util::soup;
use proptest::prelude::*;

use crate::{Strategy as Rows, dialect, error};

/// Parts of URLs, with blanks between them.
const URLS: &str = "sqlite: postgres:// postgresql:// mysql:// mariadb:// host 127.0.0.1 [::1] :5432 / // database ? & = % %00 %ff # \
    user: secret@ @ table= strategy= row version timeout= 5s max_connections= sslmode= require ssl-mode= sslrootcert= listen= prepare= \
    on a.b schema. host= password= statement-cache-capacity= port=";
const WORDS: &[&str] = &["name", "0000000000000000000000000000000f", "label", "\u{0}", "\n", "1"];

proptest! {
    #[test]
    fn urls(text in soup(URLS.split_whitespace())) {
        #[cfg(feature = "mysql")]
        for scheme in ["", "mysql://", "mysql://u:p@h/d?"] {
            let _ = crate::mysql::config::parse(&format!("{scheme}{text}"));
        }
        #[cfg(feature = "postgres")]
        for scheme in ["", "postgres://", "postgres://u:p@h/d?"] {
            let _ = crate::postgres::config::parse(&format!("{scheme}{text}"));
        }
        #[cfg(feature = "sqlite")]
        for scheme in ["", "sqlite:", "sqlite:a.db?"] {
            let _ = crate::sqlite::config::parse(&format!("{scheme}{text}"));
        }
        let _ = text.parse::<Rows>();
    }

    #[test]
    fn rows(
        (name, owner, label) in (soup(WORDS), soup(WORDS), soup(WORDS)),
        (token, version, remaining) in any::<(i64, i64, u64)>(),
    ) {
        let remaining = Duration::from_micros(remaining);
        for owner in [None, Some(owner.as_str())] {
            let row = dialect::Row::read(&name, owner, Some(&label), token, version, remaining);
            if let Ok(row) = row {
                let _ = (row.is_held(), row.is_taken(), row.holder());
                let _ = row.into_state();
            }
        }
        let _ = error::token_of(token);
    }
}
