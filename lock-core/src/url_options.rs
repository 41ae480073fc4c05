//! The options of a store's URL.

use std::{collections::BTreeSet, fmt::Display};

use crate::{Error, ErrorKind};

/// The options of a store's URL. Each may be given once: of two values one would be ignored without a word. For
/// backends that read URLs.
#[derive(Debug, Default)]
pub struct SeenOptions(BTreeSet<String>);

impl SeenOptions {
    /// Takes note of an option.
    ///
    /// # Errors
    /// `InvalidInput` if it was given before; the message names it.
    pub fn once(&mut self, option: &str) -> Result<(), Error> {
        if self.0.insert(option.to_owned()) {
            return Ok(());
        }
        let message = format!("{option} is given twice in the URL; it must be given once");
        Err(Error::new(ErrorKind::InvalidInput, message))
    }
}

/// The refusal of an option that a store has not: `InvalidInput`, with those that it has. It does not show the option,
/// which may be a part of a password that was not encoded.
pub fn unknown_option(allowed: impl Display) -> Error {
    let message = format!("unknown option in the URL; it must be one of {allowed}");
    Error::new(ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_given_once() {
        let mut given = SeenOptions::default();
        given.once("prefix").unwrap();
        given.once("timeout").unwrap();
        let error = given.once("prefix").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("prefix is given twice in the URL"), "{error}");
    }
}
