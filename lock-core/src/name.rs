//! The checked name of a lock.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind};

/// The name of a lock: 1 to 255 bytes of UTF-8 without control characters.
///
/// The check happens here, once, so that every accepted name is safe in every store. Cloning is
/// cheap: the text is shared.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LockName(Arc<str>);

impl LockName {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 255;

    /// Checks `name` and wraps it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the value and what is allowed.
    pub fn new(name: impl AsRef<str>) -> Result<Self, Error> {
        let name = name.as_ref();
        check_text("lock name", name, 1)?;
        Ok(Self(Arc::from(name)))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The rule for names and labels: `least` to 255 bytes, no control characters.
pub(crate) fn check_text(what: &str, text: &str, least: usize) -> Result<(), Error> {
    if text.len() < least || text.len() > LockName::MAX_BYTES {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!(
                "{what} {} has {} bytes; it must have between {least} and {}",
                shortened(text),
                text.len(),
                LockName::MAX_BYTES
            ),
        ));
    }
    if let Some(bad) = text.chars().find(|c| c.is_control()) {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!(
                "{what} {} contains the control character {bad:?}; it must be UTF-8 without control characters",
                shortened(text)
            ),
        ));
    }
    Ok(())
}

/// Quotes a value for a message, on one line and not longer than a person reads.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{:?}…", &text[..at]),
        None => format!("{text:?}"),
    }
}

impl AsRef<str> for LockName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for LockName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::new(name)
    }
}

impl TryFrom<String> for LockName {
    type Error = Error;

    fn try_from(name: String) -> Result<Self, Error> {
        Self::new(name)
    }
}

impl TryFrom<&str> for LockName {
    type Error = Error;

    fn try_from(name: &str) -> Result<Self, Error> {
        Self::new(name)
    }
}

impl TryFrom<&String> for LockName {
    type Error = Error;

    fn try_from(name: &String) -> Result<Self, Error> {
        Self::new(name)
    }
}

impl From<&LockName> for LockName {
    fn from(name: &LockName) -> Self {
        name.clone()
    }
}

impl From<LockName> for String {
    fn from(name: LockName) -> Self {
        name.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_is_allowed() {
        for name in ["a", "nightly/report", "{braces}", "ä", " ", &"x".repeat(255)] {
            assert_eq!(LockName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn refuses_the_rest_and_names_value_and_range() {
        for name in ["", "a\nb", "\u{7f}", "tab\t", &"x".repeat(256), &"ä".repeat(128)] {
            let error = LockName::new(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let text = error.to_string();
            assert!(text.contains("it must "), "{text}");
            assert!(!text.chars().any(char::is_control), "{text}");
        }
    }

    #[test]
    fn travels_through_serde_with_its_check() {
        let name: LockName = serde_json::from_str("\"job\"").unwrap();
        assert_eq!(serde_json::to_string(&name).unwrap(), "\"job\"");
        assert!(serde_json::from_str::<LockName>("\"\"").is_err());
        assert_eq!(name.to_string().parse::<LockName>().unwrap(), name);
        assert!("".parse::<LockName>().is_err());
    }
}
