//! The names of the tables, checked and quoted, and the statements made with them.

use lock_core::{Error, ErrorKind};

/// The longest prefix: with what is appended, a name stays below PostgreSQL's 63 bytes.
const LONGEST: usize = 40;

/// The tables of one store: `PREFIX_locks` and its like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tables {
    prefix: String,
}

impl Tables {
    pub(crate) const DEFAULT_PREFIX: &str = "leasehold";

    /// # Errors
    /// `InvalidInput` for a prefix that is empty, too long, or not of plain characters.
    pub(crate) fn new(prefix: &str) -> Result<Self, Error> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if prefix.is_empty() || prefix.len() > LONGEST || !prefix.chars().all(plain) {
            let shown: String = prefix.chars().take(LONGEST).collect();
            let message = format!(
                "table prefix {shown:?} is not allowed; allowed are 1 to {LONGEST} of the characters \
                 A-Z a-z 0-9 _"
            );
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        Ok(Self { prefix: prefix.to_owned() })
    }

    /// A statement's text with the tables' names in it, quoted by the same mark on both sides.
    pub(crate) fn fill(&self, text: &str, quote: char) -> String {
        let mut text = text.to_owned();
        for table in ["locks", "seen", "abandoned", "settings", "marker", "fence"] {
            let name = format!("{quote}{}_{table}{quote}", self.prefix);
            text = text.replace(&format!("{{{table}}}"), &name);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_cannot_break_out_of_its_quotes() {
        for bad in ["", "a\"b", "a b", "a;b", "ä", &"x".repeat(41)] {
            let error = Tables::new(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains("allowed are 1 to 40"), "{error}");
        }
        let tables = Tables::new("app_1").unwrap();
        assert_eq!(tables.fill("SELECT 1 FROM {locks}", '"'), "SELECT 1 FROM \"app_1_locks\"");
    }
}
