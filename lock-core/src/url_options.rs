//! The options of a URL that were read so far.

use std::collections::BTreeSet;

use crate::{Error, ErrorKind};

/// The options of a store's URL. Each may be given once: of two values one would be ignored without a word. For
/// backends that read URLs.
#[derive(Debug, Default)]
pub struct SeenOptions(BTreeSet<String>);

impl SeenOptions {
    /// Takes note of an option. The caller refuses unknown ones before: an unknown option
    /// may be a part of a password, and is not to be shown.
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
