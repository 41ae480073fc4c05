//! Exit codes, and the one line on stderr for each failure of leasehold itself.
//!
//! The codes below 100 are from `sysexits.h`, if it has one that fits. COMMAND's exit code is
//! passed on unchanged, so it may equal any of them. A script that must distinguish them sets
//! `--conflict-exit-code`, and looks for a line that starts with `leasehold:`.

use std::fmt::{self, Display};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold::ErrorKind;

use crate::ended::Ended;
use crate::stderr;

/// Bad usage: arguments, names, durations or URLs that can never work.
pub const USAGE: u8 = 64;
/// The store cannot be reached, opened or trusted.
pub const UNAVAILABLE: u8 = 69;
/// The lock was not acquired in time; `--conflict-exit-code` replaces it.
pub const NOT_ACQUIRED: u8 = 75;
/// `check`: the store answers, but does not promise exclusion.
pub const NOT_PROMISED: u8 = 78;
/// The lock was lost while COMMAND ran, and COMMAND was ended for it.
pub const LOST: u8 = 79;
/// COMMAND was found but cannot be executed, or no process could be started.
pub const CANNOT_EXECUTE: u8 = 126;
/// COMMAND was not found.
pub const NOT_FOUND: u8 = 127;

/// A failure of leasehold itself: a code, and a message without the `leasehold: ` before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// The problem, with the value and the allowed range.
    pub message: String,
    /// Whether nothing is wrong: a lock, or something else, was not free in time, or a job is not
    /// due.
    busy: bool,
}

impl Failure {
    /// A failure with this exit code.
    pub fn new(code: u8, message: impl Display) -> Self {
        Self { code, message: message.to_string(), busy: false }
    }

    /// Nothing is wrong, but a lock was not free in time, or a job is not due.
    pub fn busy(code: u8, message: impl Display) -> Self {
        Self { busy: true, ..Self::new(code, message) }
    }

    /// Bad usage.
    pub fn usage(message: impl Display) -> Self {
        Self::new(USAGE, message)
    }

    /// A failure of the store or of the system.
    pub fn unavailable(message: impl Display) -> Self {
        Self::new(UNAVAILABLE, message)
    }

    /// An error of a store or of the client, with its causes.
    #[must_use]
    pub fn of(error: &leasehold::Error) -> Self {
        let code = match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::Unsupported => USAGE,
            ErrorKind::Lost | ErrorKind::NotHeld => LOST,
            _ => UNAVAILABLE,
        };
        Self::new(code, format_args!("{error:#}"))
    }

    /// Writes the line to stderr, and returns the code.
    #[must_use]
    pub fn report(&self) -> u8 {
        write(&self.message, self.busy);
        self.code
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Returns the exit code for the end of a job, and writes a line to stderr if COMMAND did not end
/// by itself.
#[must_use]
pub fn of_job(ended: &Ended) -> u8 {
    let (what, left, code) = match ended {
        Ended::Exited(code) => return *code,
        Ended::Signalled(signal) => return of_signal(*signal),
        Ended::NotStarted(error) => {
            complain(format_args!("cannot start a process: {}", cause(error)));
            return CANNOT_EXECUTE;
        }
        Ended::Lost { reason, left } => (format!("lock lost: {reason}"), *left, LOST),
        Ended::NotRenewed { left } => {
            ("lock lost: the store confirmed no renewal in time".to_owned(), *left, LOST)
        }
        Ended::Unwatched { left } => ("the job reaper was killed".to_owned(), *left, of_signal(9)),
        Ended::Unanswered { left } => {
            ("the job reaper did not answer and was killed".to_owned(), *left, of_signal(9))
        }
    };
    match left {
        0 => complain(format_args!("{what}; COMMAND was ended")),
        _ => complain(format_args!(
            "{what}; {left} of COMMAND's processes could not be ended, even by SIGKILL"
        )),
    }
    code
}

/// The exit code of a process that a signal ended, as in a shell.
#[must_use]
pub fn of_signal(number: i32) -> u8 {
    128_u8.saturating_add(u8::try_from(number).unwrap_or(127))
}

/// Writes one line that starts with `leasehold: ` to stderr.
///
/// The message is always one line, without characters that control a terminal. A reader of stderr
/// who does not read delays nothing while an action is carried out. With `--log-format json` the
/// line is a JSON object, like those of warnings.
pub fn complain(message: impl Display) {
    write(message, false);
}

/// The same for what is no failure: the level of the JSON object is `WARN`, not `ERROR`.
pub(crate) fn notify(message: impl Display) {
    write(message, true);
}

/// Writes a line in the place of lines of the log that were dropped.
pub(crate) fn lines_are_missing(count: u64) {
    notify(format_args!("{count} lines of the log are missing here, because nobody read stderr"));
}

fn write(message: impl Display, harmless: bool) {
    let line = one_line(&message.to_string());
    if AS_EVENTS.load(Ordering::Relaxed) {
        if harmless {
            tracing::warn!(target: "leasehold", "{line}");
        } else {
            tracing::error!(target: "leasehold", "{line}");
        }
    } else {
        stderr::write(format!("leasehold: {line}\n"));
    }
}

/// Whether [`complain`] writes through the log, in the log's format.
static AS_EVENTS: AtomicBool = AtomicBool::new(false);

pub(crate) fn complain_as_events(yes: bool) {
    AS_EVENTS.store(yes, Ordering::Relaxed);
}

/// The system's text for an error, without the "(os error 2)".
#[must_use]
pub fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

/// Whether a character is invisible or misleading: control and format characters (also those that
/// change the direction of writing), line separators, all spaces except the plain one, and
/// characters that Unicode has not assigned.
pub(crate) fn is_unseen(character: char) -> bool {
    // By the standard library's rule for what `Debug` escapes. After a letter, it does not escape
    // an accent.
    let behind_a_letter = String::from_iter(['a', character]);
    behind_a_letter.escape_debug().count() > 2 && !matches!(character, '\\' | '"' | '\'')
}

pub(crate) fn one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for part in message.lines().map(str::trim).filter(|part| !part.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(part.chars().map(|each| if is_unseen(each) { '\u{fffd}' } else { each }));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_stays_one_line() {
        assert_eq!(one_line("first\n  second\n\nthird\n"), "first second third");
        assert_eq!(one_line("red \u{1b}[31m"), "red \u{fffd}[31m");
        assert_eq!(one_line("a\u{202e}b\u{2028}c\u{feff}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        let plain = "\"it's\" C:\\ \u{e4} e\u{301} \u{5d0} \u{1f600}";
        assert_eq!(one_line(plain), plain);
    }

    #[test]
    fn an_error_of_the_store_is_shown_with_its_sources() {
        let error = |kind| leasehold::Error::new(kind, "what").with_source("why");
        for (kind, code) in [
            (ErrorKind::InvalidInput, USAGE),
            (ErrorKind::Unsupported, USAGE),
            (ErrorKind::Config, UNAVAILABLE),
            (ErrorKind::Unavailable, UNAVAILABLE),
            (ErrorKind::Auth, UNAVAILABLE),
            (ErrorKind::Timeout, UNAVAILABLE),
            (ErrorKind::OutcomeUnknown, UNAVAILABLE),
            (ErrorKind::Lost, LOST),
            (ErrorKind::NotHeld, LOST),
        ] {
            let failure = Failure::of(&error(kind));
            assert_eq!(failure.code, code, "{kind}");
            assert!(failure.message.ends_with("what: why"), "{failure}");
        }
    }

    #[test]
    fn signals_have_the_codes_of_a_shell() {
        assert_eq!(of_signal(2), 130);
        assert_eq!(of_signal(15), 143);
        assert_eq!(of_signal(64), 192);
        assert_eq!(of_signal(999), 255);
    }

    #[test]
    fn system_errors_lose_their_numbers() {
        assert_eq!(cause(&io::Error::from_raw_os_error(2)), "No such file or directory");
    }
}
