//! leasehold's own lines on stderr, which never block the thread that renews.
//!
//! A reader may stop reading: a log driver that hangs, Ctrl-S in a terminal, a pipe that COMMAND
//! has filled. So the log, and the lines of failures, go into a queue, and a thread of its own
//! writes them. A full queue drops lines, and a line in their place says how many.
//!
//! This is not the writer of `tracing-appender`: if that one's queue is full at the end, it waits
//! for more than a second, and prints to stdout, which belongs to COMMAND. Its count is apart from
//! the lines, so the place of the gap is lost.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::sys;
use crate::tunables::{STDERR_LINES, STDERR_STALL, STDERR_STALLS};

/// The lines that wait for the thread.
static LINES: Queue = Queue::new();

thread_local! {
    /// Whether this thread takes lines from the queue. What it says itself is written at once.
    static WRITES: Cell<bool> = const { Cell::new(false) };
}

/// Starts the thread. Without it, as in the job reaper and before the arguments are known, each
/// line is written at once. The thread calls `missing` where lines were dropped.
pub(crate) fn start(missing: fn(u64)) -> io::Result<()> {
    let serve = move || {
        WRITES.set(true);
        LINES.serve(|entry| match entry {
            Entry::Line(line) => write_now(&line),
            Entry::Status(line) => write_now(&format!("\r{line}\x1b[K")),
            Entry::Erase => write_now("\r\x1b[K"),
            Entry::Dropped(count) => missing(count),
        });
    };
    LINES.open();
    thread::Builder::new().name("stderr".to_owned()).spawn(serve).map(|_| ()).inspect_err(|_| {
        LINES.lock().phase = Phase::Direct;
    })
}

/// Writes whole lines. Does not block if the thread was started.
pub(crate) fn write(lines: String) {
    let direct = if WRITES.get() { Some(lines) } else { LINES.push(lines) };
    if let Some(lines) = direct {
        write_now(&lines);
    }
}

/// Shows this line at the end of the terminal instead of the last such line, or none. Every other
/// line erases it first.
pub(crate) fn show_status(line: Option<String>) {
    let mut state = LINES.lock();
    if state.phase == Phase::Open {
        state.status = Some(line);
        LINES.filled.notify_one();
    }
}

/// Waits until all lines are written, or until nobody has read for a moment. Later lines are
/// discarded.
pub(crate) fn finish() {
    LINES.end();
    for _ in 0..STDERR_STALLS {
        // If a write would not block now, only the thread was slow.
        if LINES.is_written_within(STDERR_STALL) || !sys::takes_more() {
            return;
        }
    }
}

/// Without stderr the exit code stays the same.
fn write_now(lines: &str) {
    let _ = io::stderr().write_all(lines.as_bytes());
}

struct Queue {
    state: Mutex<State>,
    /// Wakes the thread.
    filled: Condvar,
    /// Wakes [`finish`].
    written: Condvar,
}

struct State {
    entries: VecDeque<Entry>,
    /// The status that is to be shown next.
    status: Option<Option<String>>,
    /// Whether one is shown.
    status_shown: bool,
    phase: Phase,
}

#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Line(String),
    /// This many lines were dropped here.
    Dropped(u64),
    /// A status, without an end of line.
    Status(String),
    /// The end of a status.
    Erase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nobody takes lines from the queue.
    Direct,
    Open,
    /// No more lines are accepted.
    Ended,
    /// The thread has written all of them.
    Written,
}

impl Queue {
    const fn new() -> Self {
        let state = State {
            entries: VecDeque::new(),
            status: None,
            status_shown: false,
            phase: Phase::Direct,
        };
        Self { state: Mutex::new(state), filled: Condvar::new(), written: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) {
        self.lock().phase = Phase::Open;
    }

    /// Takes the lines over. Returns them if nobody would write them.
    fn push(&self, lines: String) -> Option<String> {
        let mut state = self.lock();
        match state.phase {
            Phase::Direct => return Some(lines),
            Phase::Open => state.push(lines),
            Phase::Ended | Phase::Written => {}
        }
        self.filled.notify_one();
        None
    }

    /// Hands each entry to `put`, outside the mutex, until the queue has ended and is empty.
    fn serve(&self, mut put: impl FnMut(Entry)) {
        let mut state = self.lock();
        loop {
            if let Some(entry) = state.next() {
                drop(state);
                put(entry);
                state = self.lock();
            } else if state.phase == Phase::Open {
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                state.phase = Phase::Written;
                self.written.notify_all();
                return;
            }
        }
    }

    fn end(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Ended;
        }
        self.filled.notify_one();
    }

    fn is_written_within(&self, limit: Duration) -> bool {
        let ended = |state: &mut State| state.phase == Phase::Ended;
        let state = self.written.wait_timeout_while(self.lock(), limit, ended);
        state.unwrap_or_else(PoisonError::into_inner).0.phase != Phase::Ended
    }
}

impl State {
    /// The next thing to write. Lines come before a status, and erase it.
    fn next(&mut self) -> Option<Entry> {
        let over = !self.entries.is_empty() || self.status == Some(None);
        if over && std::mem::take(&mut self.status_shown) {
            return Some(Entry::Erase);
        }
        if let Some(entry) = self.entries.pop_front() {
            return Some(entry);
        }
        let status = self.status.take()??;
        self.status_shown = true;
        Some(Entry::Status(status))
    }

    /// Appends the lines, or counts them as dropped. Once a line was dropped, the others are, too,
    /// until half of the queue is written: a reader that is a little too slow sees few gaps.
    fn push(&mut self, lines: String) {
        let len = self.entries.len();
        match self.entries.back_mut() {
            Some(Entry::Dropped(count)) if len > STDERR_LINES / 2 => *count += 1,
            _ if len >= STDERR_LINES => self.entries.push_back(Entry::Dropped(1)),
            _ => self.entries.push_back(Entry::Line(lines)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: usize) -> Entry {
        Entry::Line(number.to_string())
    }

    /// Serves an ended queue.
    fn rest(queue: &Queue) -> Vec<Entry> {
        let mut entries = Vec::new();
        queue.end();
        queue.serve(|entry| entries.push(entry));
        entries
    }

    #[test]
    fn what_does_not_fit_is_counted_in_its_place() {
        let queue = Queue::new();
        queue.open();
        let extra = 7;
        for number in 0..STDERR_LINES + extra {
            assert_eq!(queue.push(number.to_string()), None);
        }
        let mut expected: Vec<_> = (0..STDERR_LINES).map(line).collect();
        expected.push(Entry::Dropped(7));
        assert_eq!(rest(&queue), expected);
        assert!(queue.is_written_within(Duration::ZERO));
    }

    #[test]
    fn a_gap_lasts_until_half_of_the_queue_is_written() {
        let queue = Queue::new();
        queue.open();
        let push = |number: usize| assert_eq!(queue.push(number.to_string()), None);
        (0..=STDERR_LINES).for_each(push);
        queue.lock().entries.drain(..STDERR_LINES / 2);
        push(STDERR_LINES + 1);
        queue.lock().entries.pop_front();
        push(STDERR_LINES + 2);
        let rest = rest(&queue);
        let end = &rest[rest.len() - 3..];
        assert_eq!(end, [line(STDERR_LINES - 1), Entry::Dropped(2), line(STDERR_LINES + 2)]);
    }

    #[test]
    fn nothing_is_queued_before_the_start_and_nothing_is_accepted_after_the_end() {
        let queue = Queue::new();
        let first = || "first".to_owned();
        assert_eq!(queue.push(first()), Some(first()), "to be written at once");
        queue.open();
        assert_eq!(queue.push(first()), None);
        queue.end();
        assert!(!queue.is_written_within(Duration::ZERO), "nobody has written it");
        assert_eq!(queue.push("late".to_owned()), None);
        assert_eq!(rest(&queue), [Entry::Line(first())]);
    }

    #[test]
    fn a_status_is_erased_before_a_line_and_at_its_end() {
        let queue = Queue::new();
        queue.open();
        let status = |text: &str| Some(Some(text.to_owned()));
        let mut state = queue.lock();
        state.status = status("old");
        state.status = status("first");
        assert_eq!(state.next(), Some(Entry::Status("first".to_owned())));
        state.push("line".to_owned());
        state.status = status("second");
        assert_eq!(state.next(), Some(Entry::Erase));
        assert_eq!(state.next(), Some(Entry::Line("line".to_owned())));
        assert_eq!(state.next(), Some(Entry::Status("second".to_owned())));
        state.status = Some(None);
        assert_eq!(state.next(), Some(Entry::Erase));
        assert_eq!(state.next(), None);
    }
}
