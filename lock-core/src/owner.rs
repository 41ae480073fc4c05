//! The owner of a lock: a random id for each acquisition, and a label for people.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    Error, ErrorKind,
    name::{check_text, shortened},
};

/// A random 128-bit id, fresh for every acquisition and for every place in a queue.
///
/// It is never reused: an id per process or per lock object would let a stale release free the
/// next owner's lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OwnerId(u128);

impl OwnerId {
    /// Stands in the place of the holder's id where readers share the lock: all bits are 0, and no client draws it.
    pub const READERS: Self = Self(0);

    /// An owner from 128 random bits.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// The 128 bits.
    #[must_use]
    pub const fn to_bits(self) -> u128 {
        self.0
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for OwnerId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // A sign is no digit.
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(text, 16).ok().filter(|_| digits).map(Self).ok_or_else(|| {
            let message = format!("owner id {} must be 32 hexadecimal digits", shortened(text));
            Error::new(ErrorKind::InvalidInput, message)
        })
    }
}

impl TryFrom<String> for OwnerId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<OwnerId> for String {
    fn from(owner: OwnerId) -> Self {
        owner.to_string()
    }
}

/// The label that operators see beside an owner's id: up to 255 bytes without control characters, such as
/// `host:pid`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OwnerLabel(Arc<str>);

impl OwnerLabel {
    /// Checks `label` and wraps it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the value and what is allowed.
    pub fn new(label: impl AsRef<str>) -> Result<Self, Error> {
        check_text("owner label", label.as_ref(), 0)?;
        Ok(Self(Arc::from(label.as_ref())))
    }

    /// `host:pid` of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let host: String = host.chars().filter(|c| !c.is_control()).take(200).collect();
        Self(Arc::from(format!("{host}:{}", std::process::id())))
    }

    /// In place of a label that cannot be read.
    pub(crate) fn of_unreadable_record() -> Self {
        Self(Arc::from("an unreadable record"))
    }

    /// The label as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OwnerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for OwnerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for OwnerLabel {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for OwnerLabel {
    type Err = Error;

    fn from_str(label: &str) -> Result<Self, Error> {
        Self::new(label)
    }
}

impl TryFrom<String> for OwnerLabel {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        Self::new(text)
    }
}

impl From<OwnerLabel> for String {
    fn from(label: OwnerLabel) -> Self {
        label.as_str().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_from_its_text() {
        let owner = OwnerId::from_bits(0x0123_4567_89ab_cdef);
        assert_eq!(owner.to_string().parse::<OwnerId>().unwrap(), owner);
        assert!("12".parse::<OwnerId>().is_err());
        let error = "z".repeat(32).parse::<OwnerId>().unwrap_err().to_string();
        assert!(error.contains("zzz") && error.contains("must be 32"), "{error}");
    }

    #[test]
    fn the_label_of_this_process_is_allowed() {
        let label = OwnerLabel::of_this_process();
        assert_eq!(label.to_string().parse::<OwnerLabel>().unwrap(), label);
        assert!("a\nb".parse::<OwnerLabel>().is_err());
        assert!(label.as_str().ends_with(&format!(":{}", std::process::id())));
    }
}
