//! The options of a URL that were read so far.

use std::collections::BTreeSet;

use crate::{Error, ErrorKind};

/// The options of a store's URL, each of which may be given once: of two values one would be ignored, and
/// nobody told. For backends that read URLs.
#[derive(Debug, Default)]
pub struct Given(BTreeSet<String>);

impl Given {
    /// Takes note of an option. An unknown one is to be refused before it can come twice: what is unknown
    /// may be a part of a password, and is not to be shown.
    ///
    /// # Errors
    /// `InvalidInput` where it was given before; the message names it.
    pub fn once(&mut self, option: &str) -> Result<(), Error> {
        if self.0.insert(option.to_owned()) {
            return Ok(());
        }
        let message = format!("{option} is given twice in the URL; allowed is once");
        Err(Error::new(ErrorKind::InvalidInput, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_given_once() {
        let mut given = Given::default();
        given.once("prefix").unwrap();
        given.once("timeout").unwrap();
        let error = given.once("prefix").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("prefix is given twice in the URL"), "{error}");
    }
}
