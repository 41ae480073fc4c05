//! What the values of options may be, and what is said of others.

use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use leasehold::LockName;

/// How long to wait for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// At most this long; zero is a single try.
    AtMost(Duration),
    /// Until it is acquired.
    Forever,
}

/// Why a text is no lock name, in words that stand alone.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct BadName(pub(super) String);

pub(super) fn name() -> impl TypedValueParser<Value = LockName> {
    OsStringValueParser::new().try_map(|name| match name.to_str() {
        Some(name) => LockName::new(name).map_err(|error| BadName(error.to_string())),
        None => Err(BadName(format!("lock name {name:?} is not UTF-8; allowed is only UTF-8"))),
    })
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "expected a number with a unit, such as 500ms, 10s or 2min".to_owned())
}

pub(super) fn positive(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be longer than zero, such as 500ms, 10s or 2min".to_owned()),
        duration => Ok(duration),
    }
}

pub(super) fn wait(text: &str) -> Result<Wait, String> {
    match text {
        "forever" => Ok(Wait::Forever),
        _ => duration(text).map(Wait::AtMost).map_err(|error| format!("{error}, or 'forever'")),
    }
}
