//! The owner of a lock: a random id for each acquire, and a label for people.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    Error, ErrorKind,
    name::{check_text, checked_text, shortened},
};

/// A random 128-bit id, new for every acquire and for every queue entry.
///
/// It is never used again. With an id per process or per lock object, a late release could free the
/// lock of the next owner.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OwnerId(u128);

impl OwnerId {
    /// Shown in place of the holder's id if readers share the lock. All bits are 0; no owner has
    /// this id.
    pub const READERS: Self = Self(0);

    /// Shown in place of the holder's id if the holder is a client of another library, which has no
    /// such id. It is 1; no owner has this id.
    pub const FOREIGN: Self = Self(1);

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
        // `from_str_radix` would accept a sign.
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

/// The label that operators see beside an owner's id, such as `host:pid`: up to 255 bytes of UTF-8
/// without control characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OwnerLabel(Arc<str>);

impl OwnerLabel {
    /// Checks `label` and wraps it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`], naming the value and what is allowed.
    pub fn new(label: impl AsRef<str>) -> Result<Self, Error> {
        check_text("owner label", label.as_ref(), 0).map(Self)
    }

    /// `host:pid` of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        let host: String =
            crate::sys::host_name().chars().filter(|c| !c.is_control()).take(200).collect();
        Self(Arc::from(format!("{host}:{}", std::process::id())))
    }

    /// Shown instead of a label that cannot be read.
    pub(crate) fn of_unreadable_record() -> Self {
        Self(Arc::from("an unreadable record"))
    }
}

checked_text!(OwnerLabel);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_can_be_parsed_from_its_text() {
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
