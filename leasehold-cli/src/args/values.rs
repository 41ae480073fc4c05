//! The parsers of option values, and their error messages.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use humantime::format_duration;
use leasehold::{ErrorKind, FencingToken, LockName, Once, OwnerLabel, Semaphore, StoreUrl};

use crate::tunables::{LONGEST_WATCH, SHORTEST_WATCH};

/// How long to wait for the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// At most this long; zero is a single try.
    AtMost(Duration),
    /// Until the lock is acquired.
    Forever,
}

/// Why a value is refused, as a complete message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refused(pub(super) String);

pub(super) fn name() -> impl TypedValueParser<Value = LockName> {
    OsStringValueParser::new().try_map(|name| match name.to_str() {
        // Otherwise the store would keep the URL as a name, and show it to all clients that list
        // locks.
        _ if is_store(name.as_os_str()) => Err(misplaced("the lock NAME")),
        Some(name) => LockName::new(name).map_err(|error| Refused(error.to_string())),
        None => Err(Refused(format!("lock name {name:?} must be UTF-8"))),
    })
}

pub(super) fn label() -> impl TypedValueParser<Value = OwnerLabel> {
    OsStringValueParser::new().try_map(|label| match label.to_str() {
        // All clients see it.
        _ if is_store(label.as_os_str()) => Err(misplaced("--label")),
        Some(label) => OwnerLabel::new(label).map_err(|error| Refused(error.to_string())),
        None => Err(Refused(format!("owner label {label:?} must be UTF-8"))),
    })
}

/// A parser for the path of a file, which refuses the URL of a store.
#[must_use]
pub fn file() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|file| check_path(&file, "FILE").map(|()| file.into()))
}

/// Refuses a path that is a URL; `place` names the option.
pub(super) fn check_path(path: &OsStr, place: &str) -> Result<(), Refused> {
    if path.to_string_lossy().contains("://") || is_store(path) {
        return Err(misplaced(place));
    }
    Ok(())
}

/// The message about a URL in the wrong place. It does not repeat the URL.
fn misplaced(place: &str) -> Refused {
    Refused(format!(
        "{place} looks like the URL of a store, which may hold a password; name the store with --store or \
         LEASEHOLD_STORE"
    ))
}

/// Whether a text is the URL of a store, or a URL with a login. Names such as `mail:me@host` and
/// `https://host/@me` are neither.
fn is_store(text: &OsStr) -> bool {
    // A text that was read from a file may end with a line break.
    let text = text.to_string_lossy().trim().replace(char::is_control, "");
    let Some((_, rest)) = text.split_once(':') else { return false };
    let host = rest.strip_prefix("//").and_then(|rest| rest.split(['/', '?', '#']).next());
    if host.is_some_and(|host| host.contains('@')) {
        return true;
    }
    let of_a_store = match StoreUrl::new(&text) {
        Ok(_) => true,
        // The URL of a store that this build does not have.
        Err(error) => error.kind() == ErrorKind::Unsupported,
    };
    of_a_store && (rest.starts_with('/') || rest.contains(['@', '?']))
}

/// Whether a text may be a URL in the wrong place, with a password. If in doubt, yes.
pub(super) fn may_be_secret(text: &str) -> bool {
    text.contains(':') && (text.contains(['@', '?']) || text.contains("//"))
}

pub(super) fn token(text: &str) -> Result<FencingToken, String> {
    let token = text.parse().ok().and_then(FencingToken::new);
    token.ok_or_else(|| "expected a fencing token, as 'leasehold inspect' shows it".to_owned())
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "expected a number with a unit, such as 500ms, 10s or 2min".to_owned())
}

/// Parses a duration that is longer than zero, such as `10s`.
///
/// # Errors
///
/// A message that says what is expected.
pub fn positive(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be longer than zero, such as 500ms, 10s or 2min".to_owned()),
        duration => Ok(duration),
    }
}

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        span if (SHORTEST_WATCH..=LONGEST_WATCH).contains(&span) => Ok(span),
        _ => Err(format!(
            "must be between {} and {}",
            format_duration(SHORTEST_WATCH),
            format_duration(LONGEST_WATCH)
        )),
    }
}

pub(super) fn period(text: &str) -> Result<Duration, String> {
    let (shortest, longest) = (Once::SHORTEST_PERIOD, Once::LONGEST_PERIOD);
    match duration(text)? {
        span if (shortest..=longest).contains(&span) => Ok(span),
        _ => Err(format!(
            "must be between {} and {}",
            format_duration(shortest),
            format_duration(longest)
        )),
    }
}

pub(super) fn permits(text: &str) -> Result<u32, String> {
    let most = Semaphore::MOST_PERMITS;
    match text.parse() {
        Ok(permits) if (1..=most).contains(&permits) => Ok(permits),
        _ => Err(format!("must be between 1 and {most}")),
    }
}

pub(super) fn wait(text: &str) -> Result<Wait, String> {
    match text {
        "forever" => Ok(Wait::Forever),
        _ => duration(text).map(Wait::AtMost).map_err(|error| format!("{error}, or 'forever'")),
    }
}
