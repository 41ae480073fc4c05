//! The checked name of a lock, and what names and labels have in common.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind};

/// The name of a lock: 1 to 255 bytes of UTF-8 without control characters.
///
/// Every accepted name is safe in every store, so no backend checks it again. Clones share the
/// text.
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
        check_text("lock name", name.as_ref(), 1).map(Self)
    }
}

/// Checks a name or label: `least` to 255 bytes, no control characters.
pub(crate) fn check_text(what: &str, text: &str, least: usize) -> Result<Arc<str>, Error> {
    let refuse = |why: String| {
        let message = format!("{what} {} {why}", shortened(text));
        Err(Error::new(ErrorKind::InvalidInput, message))
    };
    let (bytes, most) = (text.len(), LockName::MAX_BYTES);
    if !(least..=most).contains(&bytes) {
        return refuse(format!("has {bytes} bytes; it must have between {least} and {most}"));
    }
    match text.chars().find(|c| c.is_control()) {
        Some(bad) => refuse(format!(
            "contains the control character {bad:?}; it must be UTF-8 without control characters"
        )),
        None => Ok(Arc::from(text)),
    }
}

/// Quotes a value for a message: on one line, and at most 40 characters of it.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{:?}…", &text[..at]),
        None => format!("{text:?}"),
    }
}

/// The conversions of a type that holds a checked text and has a constructor `new`.
macro_rules! checked_text {
    ($type:ident) => {
        impl $type {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $type {
            type Error = Error;

            fn try_from(text: String) -> Result<Self, Error> {
                Self::new(text)
            }
        }

        impl From<$type> for String {
            fn from(text: $type) -> Self {
                text.as_str().to_owned()
            }
        }
    };
}
pub(crate) use checked_text;

checked_text!(LockName);

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
    fn refuses_other_names_with_value_and_range() {
        for name in ["", "a\nb", "\u{7f}", "tab\t", &"x".repeat(256), &"ä".repeat(128)] {
            let error = LockName::new(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let text = error.to_string();
            assert!(text.contains("it must "), "{text}");
            assert!(!text.chars().any(char::is_control), "{text}");
        }
    }

    #[test]
    fn is_checked_when_it_is_deserialized_or_parsed() {
        let name: LockName = serde_json::from_str("\"job\"").unwrap();
        assert_eq!(serde_json::to_string(&name).unwrap(), "\"job\"");
        assert!(serde_json::from_str::<LockName>("\"\"").is_err());
        assert_eq!(name.to_string().parse::<LockName>().unwrap(), name);
        assert!("".parse::<LockName>().is_err());
    }
}
