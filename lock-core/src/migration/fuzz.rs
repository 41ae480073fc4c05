//! Names that nearly are records of a migration.

use proptest::prelude::*;

use super::fleet;
use crate::{LockName, fuzz::soup::soup};

const WORDS: &[&str] = &[
    "leasehold migration ",
    "only ",
    "both ",
    " ",
    "00000000000000ff",
    "000000000000000000000000000000ff",
    "+",
];

proptest! {
    #[test]
    fn records(text in soup(WORDS)) {
        if let Ok(name) = LockName::new(text) {
            let _ = fleet::is_record(&name);
        }
    }
}
