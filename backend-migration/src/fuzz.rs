//! The parser of record names does not panic for names that look like records.

use lock_core::{LockName, test_util::soup};
use proptest::prelude::*;

use crate::record;

const WORDS: &str =
    "leasehold migration |only |both | |00000000000000ff|000000000000000000000000000000ff|+";

proptest! {
    #[test]
    fn records(text in soup(WORDS.split('|'))) {
        if let Ok(name) = LockName::new(text) {
            let _ = record::is_record(&name);
        }
    }
}
