//! How answers are printed in words.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::thread;
use std::time::Duration;

use humantime::format_duration;
use leasehold::{Holder, LockState, OwnerId, OwnerLabel, Quarantined};
use tokio::sync::oneshot;

use crate::exit::{Failure, cause, is_unseen};

/// Writes an answer to stdout, and returns the exit code of success.
///
/// # Errors
///
/// If stdout cannot be written to. It is not an error if the reader has closed it.
pub fn print(text: &str) -> Result<u8, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(0),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(error) => {
            Err(Failure::unavailable(format_args!("cannot write to stdout: {}", cause(&error))))
        }
    }
}

/// [`print()`] on a thread of its own: a reader of stdout who does not read does not block the
/// thread that renews.
pub(crate) fn print_apart(text: String) -> impl Future<Output = Result<u8, Failure>> {
    let (tell, told) = oneshot::channel();
    let write = move || {
        // Nobody waits for the answer any more if the lock was lost meanwhile.
        let _ = tell.send(print(&text));
    };
    let started = thread::Builder::new().spawn(write).map_err(|error| {
        Failure::unavailable(format_args!("cannot start a thread: {}", cause(&error)))
    });
    async move {
        started?;
        told.await.unwrap_or_else(|_| Err(Failure::unavailable("cannot write to stdout")))
    }
}

/// A line with invisible characters escaped.
pub(crate) fn seen(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for each in line.chars() {
        if is_unseen(each) {
            shown.extend(each.escape_unicode());
        } else {
            shown.push(each);
        }
    }
    shown
}

/// A text of another program, such as a name, with invisible characters escaped. So no two texts
/// look alike, and none changes the line or the direction of writing.
pub(crate) fn escaped(text: &str) -> String {
    seen(&text.replace('\\', "\\\\"))
}

/// A label in quotes, because it may contain spaces.
pub(crate) fn quoted(label: &OwnerLabel) -> String {
    format!("\"{}\"", escaped(label.as_str()).replace('"', "\\\""))
}

/// A duration, rounded up to the tenth of a second, or below one second to the millisecond.
pub(crate) fn rounded(span: Duration) -> String {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let step = if millis < 1000 { 1 } else { 100 };
    let millis = millis.div_ceil(step).saturating_mul(step);
    format_duration(Duration::from_millis(millis)).to_string()
}

/// When a store grants again.
pub(crate) fn grants(quarantine: Option<&Quarantined>) -> String {
    quarantine.map_or_else(|| "now".to_owned(), |it| format!("in {}", rounded(it.remaining)))
}

/// Why a store grants nothing for now, and what ends that.
pub(crate) fn why_quarantined(quarantine: &Quarantined) -> String {
    format!(
        "{} (if nobody can hold a lock, `leasehold init --first-use` ends it)",
        escaped(&quarantine.why)
    )
}

/// The holder of a lock, and its remaining lease.
pub(crate) fn holder(holder: &Holder) -> String {
    if holder.is_unreadable() {
        return format!("{}, for another {}", holder.label, rounded(holder.remaining));
    }
    if holder.owner == OwnerId::FOREIGN {
        let left = if holder.has_no_end() {
            "without an end".to_owned()
        } else {
            format!("for another {} unless renewed", rounded(holder.remaining))
        };
        return format!("{}, {left}", quoted(&holder.label));
    }
    if holder.owner == OwnerId::READERS {
        let (label, left) = (quoted(&holder.label), rounded(holder.remaining));
        return format!("readers, of whom {label} came last, for another {left} unless renewed");
    }
    format!(
        "{} (owner {}), for another {} unless renewed",
        quoted(&holder.label),
        holder.owner,
        rounded(holder.remaining)
    )
}

/// One lock, on several lines.
pub(crate) fn lock(state: &LockState) -> String {
    let mut text = format!("{}\n", escaped(state.name.as_str()));
    let mut line = |what: &str, value: &str| {
        let _ = writeln!(text, "  {what:<11}{value}");
    };
    match &state.holder {
        Some(holder) if state.kept => {
            line("released", &format!("by {}", quoted(&holder.label)));
            line("owner", &holder.owner.to_string());
            line("kept", &format!("for another {}, its minimum hold", rounded(holder.remaining)));
            line("token", &state.token.to_string());
        }
        Some(holder) if state.unreadable => {
            line("held by", holder.label.as_str());
            line("lease", &format!("ends in {}, or by force", rounded(holder.remaining)));
        }
        Some(holder) if state.readers.is_some() => {
            line("shared by", &readers(state));
            line("last came", &quoted(&holder.label));
            line("lease", &format!("of the last one ends in {}", rounded(holder.remaining)));
            line("token", &state.token.to_string());
        }
        Some(holder) if holder.owner == OwnerId::FOREIGN => {
            line("held by", &quoted(&holder.label));
            line("owner", "none: the holder is no client of leasehold");
            if holder.has_no_end() {
                line("lease", "has no end");
            } else {
                line("lease", &format!("ends in {} unless renewed", rounded(holder.remaining)));
            }
            line("last token", &state.token.to_string());
        }
        Some(holder) => {
            line("held by", &quoted(&holder.label));
            line("owner", &holder.owner.to_string());
            line("lease", &format!("ends in {} unless renewed", rounded(holder.remaining)));
            line("token", &state.token.to_string());
        }
        None => {
            line("free", "");
            line("last token", &state.token.to_string());
        }
    }
    if let Some(waiting) = state.waiting {
        line("waiting", &waiting.to_string());
    }
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Held locks, one per line. The name comes last because it may contain spaces.
pub(crate) fn table(locks: &[LockState]) -> String {
    if locks.is_empty() {
        return String::new();
    }
    let mut text = format!("{:<17} {:<12} {:<24} NAME\n", "TOKEN", "LEASE ENDS", "HOLDER");
    for state in locks {
        let (label, left) = holder_and_rest(state);
        let token = state.token.to_string();
        let _ =
            writeln!(text, "{token:<17} {left:<12} {label:<24} {}", escaped(state.name.as_str()));
    }
    text
}

/// The number of readers, in words.
fn readers(state: &LockState) -> String {
    match state.readers {
        Some(1) => "1 reader".to_owned(),
        readers => format!("{} readers", readers.unwrap_or_default()),
    }
}

/// The holder's label, and its remaining lease.
fn holder_and_rest(state: &LockState) -> (String, String) {
    let Some(holder) = &state.holder else { return ("-".to_owned(), "-".to_owned()) };
    let label = &holder.label;
    let shown = if holder.is_unreadable() { label.to_string() } else { quoted(label) };
    let shown =
        if state.readers.is_some() { format!("{}, {shown} last", readers(state)) } else { shown };
    let shown = if state.kept { shown + ", released" } else { shown };
    let left = if holder.has_no_end() { "never".to_owned() } else { rounded(holder.remaining) };
    (shown, left)
}

/// Held locks, one per line, with ages and waiters. `now` is the store's clock in µs, as in fencing
/// tokens.
pub(crate) fn watched(locks: &[LockState], now: u64) -> String {
    let mut text =
        format!("{:<14} {:<12} {:<7} {:<24} NAME\n", "HELD FOR", "LEASE ENDS", "WAITING", "HOLDER");
    for state in locks {
        let (label, left) = holder_and_rest(state);
        let age =
            age(state, now).map_or_else(|| "-".to_owned(), |age| format_duration(age).to_string());
        let waiting = state.waiting.map_or_else(|| "-".to_owned(), |waiting| waiting.to_string());
        let name = escaped(state.name.as_str());
        let _ = writeln!(text, "{age:<14} {left:<12} {waiting:<7} {label:<24} {name}");
    }
    text
}

/// How long ago the token was made, in whole seconds; `None` if the token is not a time of the
/// store's clock.
pub(crate) fn age(state: &LockState, now: u64) -> Option<Duration> {
    // A time since 2001. A token may also lead the clock.
    let made = Some(state.token.get()).filter(|token| *token > 1_000_000_000_000_000)?;
    let held = state.holder.is_some() && !state.kept && !state.unreadable;
    held.then(|| Duration::from_secs(now.saturating_sub(made) / 1_000_000))
}

#[cfg(test)]
mod tests {
    use leasehold::{FencingToken, LockName};
    use serde_json::Value;

    use super::*;
    use crate::json;

    fn state(held: bool) -> LockState {
        let holder = held.then(|| {
            Holder::new(
                OwnerId::from_bits(0xabc),
                OwnerLabel::new("host:1").unwrap(),
                Duration::from_micros(8_210_100),
            )
        });
        LockState::new(LockName::new("a b").unwrap(), holder, FencingToken::new(7).unwrap())
    }

    #[test]
    fn durations_in_json_are_milliseconds() {
        let text = json::pretty(&[state(true)]).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value[0]["holder"]["remaining_ms"], 8210);
        assert_eq!(value[0]["holder"]["owner"], format!("{:032x}", 0xabc));
        assert_eq!(value[0]["token"], 7);
        assert_eq!(value[0]["waiting"], Value::Null);
    }

    #[test]
    fn a_lock_in_words() {
        assert_eq!(
            lock(&state(true)),
            "a b\n  held by    \"host:1\"\n  owner      00000000000000000000000000000abc\n  \
             lease      ends in 8s 300ms unless renewed\n  token      7\n"
        );
        assert_eq!(lock(&state(false)), "a b\n  free\n  last token 7\n");
        assert_eq!(table(&[]), "");
        assert!(table(&[state(true)]).ends_with("\"host:1\"                 a b\n"));
    }

    #[test]
    fn the_age_is_that_of_the_token_if_it_is_a_time() {
        let at = |token| {
            let state = state(true);
            LockState::new(state.name, state.holder, FencingToken::new(token).unwrap())
        };
        let (made, now) = (1_763_800_000_000_000, 1_763_800_061_900_000);
        assert_eq!(age(&at(made), now), Some(Duration::from_secs(61)));
        assert_eq!(age(&at(now), made), Some(Duration::ZERO), "it may lead the clock");
        assert_eq!(age(&at(7), now), None);
        assert_eq!(age(&at(made).with_kept(true), now), None);
        let text = watched(&[at(made).with_waiting(3)], now);
        let columns: Vec<_> =
            text.lines().nth(1).unwrap().split("  ").filter(|it| !it.is_empty()).collect();
        assert_eq!(columns.len(), 5, "{text}");
        assert!(
            text.ends_with(" a b\n") && text.contains("1m 1s ") && text.contains(" 3 "),
            "{text}"
        );
    }

    #[test]
    fn a_kept_lock_is_shown_as_released() {
        assert_eq!(
            lock(&state(true).with_kept(true)),
            "a b\n  released   by \"host:1\"\n  owner      00000000000000000000000000000abc\n  \
             kept       for another 8s 300ms, its minimum hold\n  token      7\n"
        );
        assert!(table(&[state(true).with_kept(true)]).contains("\"host:1\", released "));
    }

    #[test]
    fn readers_are_counted() {
        let (label, span) = (OwnerLabel::new("host:2").unwrap(), Duration::from_secs(9));
        let holder = Holder::readers(label, span);
        let token = FencingToken::new(7).unwrap();
        let state = LockState::new(LockName::new("a b").unwrap(), Some(holder), token);
        let shared = |readers| state.clone().with_readers(readers);
        assert_eq!(
            lock(&shared(3)),
            "a b\n  shared by  3 readers\n  last came  \"host:2\"\n  lease      of the last one ends in 9s\n  \
             token      7\n"
        );
        let text = table(&[shared(1)]);
        assert!(text.contains(" 1 reader, \"host:2\" last "), "{text}");
        let value: Value = serde_json::from_str(&json::pretty(&shared(3)).unwrap()).unwrap();
        assert_eq!(value["readers"], 3);
        let told = "readers, of whom \"host:2\" came last, for another 9s unless renewed";
        assert_eq!(super::holder(&state.holder.unwrap()), told);
    }

    #[test]
    fn an_unreadable_record_is_shown_as_one() {
        let span = Duration::from_secs(9);
        let name = LockName::new("a b").unwrap();
        let state = LockState::new(name, Some(Holder::unreadable(span)), FencingToken::ZERO);
        let told = "a b\n  held by    an unreadable record\n  lease      ends in 9s, or by force\n";
        assert_eq!(lock(&state), told);
        assert!(table(std::slice::from_ref(&state)).contains("an unreadable record "));
        let value: Value = serde_json::from_str(&json::pretty(&state).unwrap()).unwrap();
        assert_eq!(value["unreadable"], true);
        assert_eq!(holder(&state.holder.unwrap()), "an unreadable record, for another 9s");
    }

    #[test]
    fn a_client_of_another_library_is_no_reader_and_may_hold_for_ever() {
        let label = OwnerLabel::new("a redisson client: x").unwrap();
        let span = Duration::from_secs(9);
        let told = |remaining| {
            let holder = Holder::foreign(label.clone(), remaining);
            let name = LockName::new("a b").unwrap();
            let state = LockState::new(name, Some(holder.clone()), FencingToken::ZERO);
            (
                super::holder(&holder),
                lock(&state),
                table(std::slice::from_ref(&state)),
                json::pretty(&state),
            )
        };
        let (busy, lines, row, _) = told(span);
        assert_eq!(busy, "\"a redisson client: x\", for another 9s unless renewed");
        assert!(lines.contains("owner      none") && row.contains(" 9s "), "{lines} {row}");
        let (busy, lines, row, text) = told(Holder::WITHOUT_END);
        assert_eq!(busy, "\"a redisson client: x\", without an end");
        assert!(
            lines.contains("lease      has no end") && row.contains(" never "),
            "{lines} {row}"
        );
        let value: Value = serde_json::from_str(&text.unwrap()).unwrap();
        assert_eq!(value["holder"]["remaining_ms"], Value::Null);
    }

    #[test]
    fn short_times_are_not_rounded_to_nothing() {
        assert_eq!(rounded(Duration::from_micros(900)), "0s");
        assert_eq!(rounded(Duration::from_millis(15)), "15ms");
        assert_eq!(rounded(Duration::from_millis(29_990)), "30s");
        assert!(rounded(Duration::MAX).starts_with("584542046years"));
    }
}
