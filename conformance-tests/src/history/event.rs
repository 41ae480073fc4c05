//! The events of a history.

use std::fmt;

use lock_core::{FencingToken, Instant, LockName, LossReason, Mode, OwnerId};
use serde::{Deserialize, Serialize};

/// One acquisition of one process: everything that becomes of it is recorded under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Op {
    /// Which process; a number of the test's choice.
    pub process: u32,
    /// Which of its acquisitions.
    pub number: u64,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.process, self.number)
    }
}

/// Something that a client saw or did, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Read before what begins and after what has ended.
    pub at: Instant,
    /// The acquisition that it belongs to.
    pub op: Op,
    /// What it was.
    #[serde(flatten)]
    pub what: What,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.at.as_nanos() / 1_000;
        write!(f, "{micros:>12}us {} {:?}", self.op, self.what)
    }
}

/// What was seen or done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum What {
    /// The acquire is about to be called.
    Asked {
        /// What it asks for: a lock, or a semaphore.
        name: LockName,
        /// How many permits the semaphore has, if it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        permits: Option<u32>,
        /// Whether it asks as a reader.
        #[serde(default)]
        mode: Mode,
    },
    /// There is evidence that the store has a place for this acquisition by now, which is the oldest
    /// of its process: fairness counts from here.
    Queued,
    /// The acquire returned a guard.
    Acquired {
        /// The guard's owner.
        owner: OwnerId,
        /// The guard's token.
        token: FencingToken,
        /// Until when the guard said that it is valid; `None` if it was not valid any more.
        until: Option<Instant>,
        /// The lock that it holds, if that is not the one that was asked for: a slot, or one of several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lock: Option<LockName>,
    },
    /// The acquire returned without a guard.
    NotAcquired {
        /// The token that a `Busy` answer named.
        token: Option<FencingToken>,
        /// In words.
        why: String,
    },
    /// The acquire's future was dropped.
    Cancelled,
    /// The holder looked at its guard.
    Looked {
        /// Until when it said that it is valid; `None` if it was not valid any more.
        until: Option<Instant>,
    },
    /// The guard reported its loss.
    Lost {
        /// The reason that it gave.
        reason: LossReason,
    },
    /// The guard is about to be released or dropped: its holder believes nothing any more.
    GivenUp,
    /// The release has returned.
    Released {
        /// Whether it reported success; if not, how it failed.
        failed: Option<String>,
    },
    /// The holder wrote to a fenced resource what it made of the value that it had read there.
    Updated {
        /// Which resource.
        resource: String,
        /// The token that it offered.
        token: FencingToken,
        /// When it began to read.
        began: Instant,
        /// The value that it found. The resource starts with 0.
        read: u64,
        /// The value that it wrote, different from every other.
        wrote: u64,
        /// Whether the fence admitted the write.
        admitted: bool,
    },
    /// An operator has freed a name by force. The former holder may believe in it until its next renewal.
    Forced {
        /// What was freed.
        name: LockName,
        /// When that was begun.
        began: Instant,
    },
}

/// Events of one or several processes, in order of their time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(Vec<Event>);

impl History {
    /// A history of these events.
    #[must_use]
    pub fn new(mut events: Vec<Event>) -> Self {
        // Stable: what one process saw at the same instant stays in its order.
        events.sort_by_key(|event| event.at);
        Self(events)
    }

    /// The events in order of their time.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.0
    }

    /// This history with that of other processes.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        Self::new(self.0)
    }

    /// The history as text, a line of JSON per event.
    ///
    /// # Errors
    /// None that can happen with these types; what the JSON writer says.
    pub fn to_lines(&self) -> serde_json::Result<String> {
        let mut text = String::new();
        for event in &self.0 {
            text.push_str(&serde_json::to_string(event)?);
            text.push('\n');
        }
        Ok(text)
    }

    /// Reads what [`to_lines`](History::to_lines) wrote. Empty lines are passed over.
    ///
    /// # Errors
    /// What the JSON reader says of the first bad line: a child that was killed may leave half of one.
    pub fn from_lines(text: &str) -> serde_json::Result<Self> {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        lines.map(serde_json::from_str).collect::<Result<Vec<Event>, _>>().map(Self::new)
    }
}

impl FromIterator<Event> for History {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Self {
        Self::new(events.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_reads_back_from_its_lines() {
        let op = Op { process: 3, number: 7 };
        let name = LockName::new("job \"1\"").unwrap();
        let at = Instant::from_nanos;
        let token = FencingToken::new(9).unwrap();
        let history = History::new(vec![
            Event { at: at(9), op, what: What::Lost { reason: LossReason::TakenOver } },
            Event {
                at: at(1),
                op,
                what: What::Asked { name: name.clone(), permits: Some(3), mode: Mode::Shared },
            },
            Event {
                at: at(5),
                op,
                what: What::Acquired {
                    owner: OwnerId::from_bits(1 << 100),
                    token,
                    until: Some(at(8)),
                    lock: Some(LockName::new("job/2").unwrap()),
                },
            },
            Event { at: at(6), op, what: What::Queued },
            Event { at: at(6), op, what: What::Forced { name, began: at(5) } },
            Event {
                at: at(7),
                op,
                what: What::Updated {
                    resource: "r".into(),
                    token,
                    began: at(6),
                    read: 0,
                    wrote: 1,
                    admitted: true,
                },
            },
        ]);
        assert_eq!(history.events()[0].at, at(1));
        let text = history.to_lines().unwrap();
        assert_eq!(text.lines().count(), 6);
        assert_eq!(History::from_lines(&format!("{text}\n")).unwrap(), history);
        assert!(History::from_lines(&text[..text.len() / 2]).is_err());
    }
}
