//! The names of the tables, checked and quoted, and the statements made with them.

use lock_core::{Error, ErrorKind};

use crate::tunables::LONGEST_NAME;

/// The tables of one store: `PREFIX_locks` and the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// `None` where statements name no schema.
    schema: Option<String>,
    prefix: String,
}

impl Tables {
    pub(crate) const DEFAULT_PREFIX: &str = "leasehold";

    /// # Errors
    /// `InvalidInput` for a prefix that is empty, too long, or not of plain characters.
    pub(crate) fn new(prefix: &str) -> Result<Self, Error> {
        check("table prefix", prefix)?;
        Ok(Self { schema: None, prefix: prefix.to_owned() })
    }

    /// The same tables in this schema. Every statement then names the schema.
    ///
    /// # Errors
    /// `InvalidInput` as for a prefix.
    #[cfg(feature = "postgres")]
    pub(crate) fn in_schema(self, schema: &str) -> Result<Self, Error> {
        check("schema", schema)?;
        Ok(Self { schema: Some(schema.to_owned()), ..self })
    }

    /// The quoted name of another table in the same schema, which ends with `suffix`. Checks the
    /// name.
    ///
    /// # Errors
    /// `InvalidInput` as for a prefix.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub fn other(&self, table: &str, suffix: &str, quote: char) -> Result<String, Error> {
        check("table", table)?;
        Ok(format!("{}{quote}{table}{suffix}{quote}", self.schema(quote)))
    }

    /// The text before the name of a table.
    fn schema(&self, quote: char) -> String {
        let schema = self.schema.as_ref();
        schema.map(|schema| format!("{quote}{schema}{quote}.")).unwrap_or_default()
    }

    /// Fills the quoted names of tables, indexes and triggers into a statement.
    pub fn fill(&self, text: &str, quote: char) -> String {
        let mut text = text.to_owned();
        let schema = self.schema(quote);
        for table in [
            "locks",
            "seen",
            "abandoned",
            "settings",
            "marker",
            "fence",
            "records",
            "queue",
            "queue_owner",
            "served",
            "served_first",
        ] {
            let name = format!("{schema}{quote}{}_{table}{quote}", self.prefix);
            text = text.replace(&format!("{{{table}}}"), &name);
        }
        // An index is in the schema of its table.
        let index = format!("{quote}{}_queue_in_order{quote}", self.prefix);
        text = text.replace("{queue_in_order}", &index);
        text
    }
}

/// Checks that a name needs only quotes around it.
fn check(what: &str, name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(plain) {
        return Ok(());
    }
    // A name with an `@` may be the rest of a password that was not encoded, so it is not shown.
    let shown = match name.contains('@') {
        true => String::new(),
        false => format!(" {:?}", name.chars().take(LONGEST_NAME).collect::<String>()),
    };
    let message = format!(
        "{what}{shown} is not allowed; it must be 1 to {LONGEST_NAME} of the characters A-Z a-z 0-9 _"
    );
    Err(Error::new(ErrorKind::InvalidInput, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_cannot_break_out_of_its_quotes() {
        for bad in ["", "a\"b", "a b", "a;b", "ä", &"x".repeat(41)] {
            let error = Tables::new(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains("must be 1 to 40"), "{error}");
            #[cfg(feature = "postgres")]
            Tables::new("app").unwrap().in_schema(bad).unwrap_err();
        }
        let tables = Tables::new("app_1").unwrap();
        assert_eq!(tables.fill("SELECT 1 FROM {locks}", '"'), "SELECT 1 FROM \"app_1_locks\"");
        #[cfg(feature = "postgres")]
        assert_eq!(
            tables.in_schema("Own").unwrap().fill("FROM {locks}", '"'),
            "FROM \"Own\".\"app_1_locks\""
        );
    }
}
