//! Fencing tokens: hybrid logical clocks.
//!
//! A token is `max(store clock in µs, watermark + 1, floor + 1)`. A plain counter would go back
//! when a store loses its data, and would keep a key per name for ever. After a loss of data the
//! clock alone makes tokens larger than all earlier ones. The idea to combine a physical clock with
//! a counter is from Kulkarni et al., "Logical Physical Clocks" (2014).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, name::shortened};

/// A number that grows with every grant of a name.
///
/// Send it to the resource that the lock protects. The resource must refuse a token lower than one
/// that it has seen; see [`Fence`](crate::Fence). A larger token is a later grant; the value has no
/// other meaning. It is near the store's clock in microseconds since 1970, and below 2^53, so that
/// every store and every JSON reader keeps it exactly.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(try_from = "u64", into = "u64")]
pub struct FencingToken(u64);

impl FencingToken {
    /// Lower than every granted token.
    pub const ZERO: Self = Self(0);

    /// The largest value: 2^53 - 1.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Wraps a number read from a store; `None` if it is above [`FencingToken::MAX`].
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        if value <= Self::MAX.0 { Some(Self(value)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Makes the token of a new grant.
    ///
    /// `clock_micros` is the store's clock in microseconds since 1970, `watermark` is at least the
    /// last token of the name, and the request asks for more than `floor`. Returns `None` when the
    /// tokens are used up: in the year 2255, or after a floor that was not checked.
    #[must_use]
    pub fn mint(clock_micros: u64, watermark: Self, floor: Self) -> Option<Self> {
        Self::new(clock_micros.max(watermark.0 + 1).max(floor.0 + 1))
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl TryFrom<u64> for FencingToken {
    type Error = Error;

    fn try_from(value: u64) -> Result<Self, Error> {
        Self::new(value).ok_or_else(|| refusal(value))
    }
}

/// Parses the decimal number that `Display` writes.
impl FromStr for FencingToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // `parse` would accept a sign.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let value = text.parse().ok().filter(|_| digits).and_then(Self::new);
        value.ok_or_else(|| refusal(shortened(text)))
    }
}

fn refusal(value: impl fmt::Display) -> Error {
    let message = format!("fencing token {value} must be between 0 and {}", FencingToken::MAX);
    Error::new(ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_clock_but_never_goes_back() {
        let zero = FencingToken::ZERO;
        let first = FencingToken::mint(1_000, zero, zero).unwrap();
        assert_eq!(first.get(), 1_000);
        let clock_went_back = FencingToken::mint(10, first, zero).unwrap();
        assert_eq!(clock_went_back.get(), 1_001);
        let floor = FencingToken::new(5_000).unwrap();
        assert_eq!(FencingToken::mint(10, first, floor).unwrap().get(), 5_001);
    }

    #[test]
    fn stays_below_two_to_the_53() {
        assert_eq!(FencingToken::new(1 << 53), None);
        assert_eq!(FencingToken::mint(0, FencingToken::MAX, FencingToken::ZERO), None);
        let largest = FencingToken::MAX.get();
        assert_eq!(largest as f64 as u64, largest);
    }

    #[test]
    fn can_be_parsed_from_text_and_json_within_its_range() {
        for token in [FencingToken::ZERO, FencingToken(1_790_000_000_000_000), FencingToken::MAX] {
            assert_eq!(token.to_string().parse::<FencingToken>().unwrap(), token);
            let json = serde_json::to_string(&token).unwrap();
            assert_eq!(json, token.to_string());
            assert_eq!(serde_json::from_str::<FencingToken>(&json).unwrap(), token);
        }
        for text in ["9007199254740992", "18446744073709551616", "-1", "+1", "1.5", "", "one\n"] {
            let error = text.parse::<FencingToken>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let message = error.to_string();
            assert!(message.ends_with("must be between 0 and 9007199254740991"), "{message}");
            assert!(!message.contains('\n') && serde_json::from_str::<FencingToken>(text).is_err());
        }
    }
}
