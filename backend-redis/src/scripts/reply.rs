//! Reads the answers of scripts.

use std::time::Duration;

use lock_core::{Busy, Error, ErrorKind, FencingToken, Holder, OwnerId, OwnerLabel, Quarantined};
use redis::Value;

use crate::settings::{AgreedSettings, version};

/// The answer to an attempt, or to a call that may hand the lock over.
#[derive(Debug)]
pub(crate) enum Reply {
    Granted(FencingToken),
    Busy {
        busy: Busy,
        queued: bool,
    },
    Quarantined(Quarantined),
    /// The client's last handshake is older than a change of the server's role.
    Stale,
    /// The attempt reached the server after its deadline.
    Late,
    /// The store's settings differ from those that the client knows.
    Settings(AgreedSettings),
    /// What is wrong with the store's settings.
    UnreadableSettings(String),
    Floor(u64),
    LeaseTooLong,
    Exhausted,
    /// One word that only some scripts answer.
    Word(String),
    /// The answer of a script that is not read here.
    Foreign(Value),
    Set {
        longest: u64,
        quarantine: bool,
        grants_in: Duration,
    },
}

/// The error for an answer that no script gives.
///
/// It is ambiguous: the script ran.
pub fn not_understood() -> Error {
    Error::new(ErrorKind::OutcomeUnknown, "the answer of a script was not understood")
}

/// The parts of an answer.
///
/// # Errors
/// `OutcomeUnknown` for another kind of answer.
pub fn list(value: Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(not_understood()),
    }
}

/// Refuses the answer of `unknown` in version.lua.
///
/// # Errors
/// `Config`: the store's records have another version.
pub(crate) fn check_version(value: &Value) -> Result<(), Error> {
    match value {
        Value::Array(parts) => match parts.as_slice() {
            [word @ Value::BulkString(_), stored] if text(word)? == "version" => {
                version::check(text(stored)?)
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Reads a text in an answer.
///
/// # Errors
/// As [`list`].
pub fn text(value: &Value) -> Result<&str, Error> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).map_err(|_| not_understood()),
        Value::SimpleString(text) => Ok(text),
        _ => Err(not_understood()),
    }
}

/// Reads a number in an answer, also one sent as text. A number below zero counts as zero.
///
/// # Errors
/// As [`list`].
pub fn number(value: &Value) -> Result<u64, Error> {
    match value {
        Value::Int(number) => Ok(u64::try_from(*number).unwrap_or_default()),
        other => text(other)?.parse().map_err(|_| not_understood()),
    }
}

/// Reads a number that may be missing, which is -1.
pub(crate) fn known_number(value: &Value) -> Result<Option<u64>, Error> {
    match value {
        Value::Int(number) => Ok(u64::try_from(*number).ok()),
        _ => Err(not_understood()),
    }
}

pub(crate) fn token(value: &Value) -> Result<FencingToken, Error> {
    FencingToken::new(number(value)?).ok_or_else(not_understood)
}

/// The holder of a lock, from a record that may be unreadable.
///
/// `label` is `None` if it is not even text.
#[must_use]
pub fn holder(owner: &str, label: Option<&str>, remaining: Duration) -> Holder {
    let label = label.and_then(|label| OwnerLabel::new(label).ok());
    match (owner.parse(), label) {
        (Ok(owner), Some(label)) => Holder::new(owner, label, remaining),
        _ => Holder::unreadable(remaining),
    }
}

/// Reads `retry-ms remaining-ms owner token state label`: the caller waits behind this holder.
fn handed_on(text: &str) -> Option<Reply> {
    let parts: Vec<_> = text.splitn(6, ' ').collect();
    let [retry, remaining, owner, token, _state, label] = parts[..] else { return None };
    let millis = |text: &str| text.parse().ok().map(Duration::from_millis);
    owner.parse::<OwnerId>().ok()?;
    let holder = Some(holder(owner, Some(label), millis(remaining)?));
    let token = FencingToken::new(token.parse().ok()?)?;
    let busy = Busy::new(holder, token, millis(retry)?);
    Some(Reply::Busy { busy, queued: true })
}

impl Reply {
    pub(crate) fn read(value: Value) -> Result<Self, Error> {
        if let Value::BulkString(text) = &value {
            let text = String::from_utf8_lossy(text);
            return match text.contains(' ') {
                true => handed_on(&text).ok_or_else(not_understood),
                false => Ok(Self::Granted(token(&value)?)),
            };
        }
        let parts = list(value)?;
        let part = |at: usize| parts.get(at).ok_or_else(not_understood);
        Ok(match text(part(0)?)? {
            "granted" => Self::Granted(token(part(1)?)?),
            "busy" => {
                let owner = text(part(1)?)?;
                let remaining = Duration::from_millis(number(part(3)?)?);
                let label = text(part(2)?).ok();
                let holder = (!owner.is_empty()).then(|| holder(owner, label, remaining));
                let retry_after = Duration::from_millis(number(part(5)?)?);
                let busy = Busy::new(holder, token(part(4)?)?, retry_after);
                Self::Busy { busy, queued: number(part(6)?)? == 1 }
            }
            "quarantine" => Self::Quarantined(Quarantined::new(
                Duration::from_micros(number(part(1)?)?),
                text(part(2)?)?,
            )),
            "stale" => Self::Stale,
            "late" => Self::Late,
            "settings" => {
                let field = |at: usize| parts.get(at).and_then(|value| text(value).ok());
                AgreedSettings::read(field(1), field(2))
                    .map_or_else(Self::UnreadableSettings, Self::Settings)
            }
            "floor" => Self::Floor(number(part(1)?)?),
            "lease" => Self::LeaseTooLong,
            "exhausted" => Self::Exhausted,
            "set" => Self::Set {
                longest: number(part(1)?)?,
                quarantine: text(part(2)?)? == "on",
                grants_in: Duration::from_micros(number(part(3)?)?),
            },
            other => Self::Word(other.to_owned()),
        })
    }

    /// The error of a refusal, which is the same for every operation.
    pub(crate) fn into_error(self, longest: Duration) -> Error {
        let show = humantime::format_duration(longest);
        match self {
            Self::Floor(limit) => Error::new(
                ErrorKind::InvalidInput,
                format!(
                    "the token leads the server's clock by more than the longest lease; must be at \
                     most {limit}"
                ),
            ),
            Self::LeaseTooLong => Error::new(
                ErrorKind::InvalidInput,
                format!("the lease is above this store's longest lease; must be at most {show}"),
            ),
            Self::Exhausted => Error::new(
                ErrorKind::Config,
                "the fencing tokens are used up, since the store's highest token is at the limit; \
                 `leasehold init --reset-tokens` sets them back",
            ),
            Self::Word(word) if word == "gone" => {
                Error::new(ErrorKind::NotHeld, "the grant whose token was to be raised is gone")
            }
            _ => not_understood(),
        }
    }
}

/// The answer of a script that may grant. `first` is whether a release found the lock held.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) first: Option<u64>,
    pub(crate) reply: Option<Reply>,
}

impl Answer {
    pub(crate) fn plain(value: Value) -> Result<Self, Error> {
        Ok(Self { first: None, reply: Some(Reply::read(value)?) })
    }

    /// The answer of `release.lua`: 0, 1 or the answer to the next request, if the lock was held;
    /// `{0, answer}` if not.
    pub(crate) fn of_release(value: Value) -> Result<Self, Error> {
        match value {
            Value::Int(held) => {
                let held = u64::try_from(held).map_err(|_| not_understood())?;
                Ok(Self { first: Some(held), reply: None })
            }
            Value::Array(mut parts) if matches!(parts.first(), Some(Value::Int(_))) => {
                let reply = parts.pop().map(Reply::read).transpose()?;
                Ok(Self { first: Some(0), reply })
            }
            answer => Ok(Self { first: Some(1), reply: Some(Reply::read(answer)?) }),
        }
    }

    pub(crate) fn number(value: Value) -> Result<Self, Error> {
        Ok(Self { first: Some(number(&value)?), reply: None })
    }
}

#[cfg(test)]
mod tests {
    use lock_core::OwnerId;

    use super::*;

    fn read(text: &str) -> Result<Reply, Error> {
        Reply::read(Value::BulkString(text.as_bytes().to_vec()))
    }

    #[test]
    fn the_new_holder_is_reported_in_one_text() {
        let owner = OwnerId::from_bits(7);
        let Ok(Reply::Busy { busy, queued: true }) = read(&format!("500 2000 {owner} 9 2 a b 1"))
        else {
            panic!("not understood");
        };
        let holder = busy.holder.unwrap();
        assert_eq!((holder.owner, holder.label.as_str()), (owner, "a b 1"));
        assert_eq!((busy.retry_after.as_millis(), holder.remaining.as_millis()), (500, 2000));
        assert_eq!(busy.token.get(), 9);
    }

    #[test]
    fn a_holder_whose_label_cannot_be_read_is_still_one() {
        let owner = OwnerId::from_bits(7);
        // A label that is not UTF-8 is shown as well as possible.
        for (label, unreadable) in [(&b"a\x07b"[..], true), (b"\xff", false)] {
            let text = [format!("500 2000 {owner} 9 2 ").as_bytes(), label].concat();
            let Ok(Reply::Busy { busy, .. }) = Reply::read(Value::BulkString(text)) else {
                panic!("not understood");
            };
            assert_eq!(busy.holder.unwrap().is_unreadable(), unreadable);
        }
    }

    #[test]
    fn a_text_that_is_cut_short_is_not_understood() {
        assert!(matches!(read("9"), Ok(Reply::Granted(token)) if token.get() == 9));
        for text in
            ["500 2000", "500 2000 x 9 2 a", "a 2000 00000000000000000000000000000007 9 2 a"]
        {
            assert_eq!(read(text).unwrap_err().kind(), ErrorKind::OutcomeUnknown, "{text}");
        }
    }
}
