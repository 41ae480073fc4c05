//! What the options of all store URLs have in common.

use std::{collections::BTreeSet, fmt::Display};

use crate::{Error, ErrorKind};

/// The options that were found in a store's URL. Each may be given once, because a second value
/// would silently replace the first. For backends that parse URLs.
#[derive(Debug, Default)]
pub struct SeenOptions(BTreeSet<String>);

impl SeenOptions {
    /// Records an option.
    ///
    /// # Errors
    /// `InvalidInput` if the option was given before. The message names it.
    pub fn once(&mut self, option: &str) -> Result<(), Error> {
        if self.0.insert(option.to_owned()) {
            return Ok(());
        }
        let message = format!("{option} is given twice in the URL; it must be given once");
        Err(Error::new(ErrorKind::InvalidInput, message))
    }
}

/// The error for an unknown option: `InvalidInput`, naming the known ones. It does not show the
/// unknown option, which may be a part of a password that was not percent-encoded.
pub fn unknown_option(allowed: impl Display) -> Error {
    let message = format!("unknown option in the URL; it must be one of {allowed}");
    Error::new(ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_given_twice_is_refused() {
        let mut given = SeenOptions::default();
        given.once("prefix").unwrap();
        given.once("timeout").unwrap();
        let error = given.once("prefix").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("prefix is given twice in the URL"), "{error}");
    }
}
