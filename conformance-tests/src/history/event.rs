//! The events of a history.

use std::fmt;

use lock_core::{FencingToken, Instant, LockName, LossReason, Mode, OwnerId};
use serde::{Deserialize, Serialize};

/// The id of one acquisition of one process. All its events have this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Op {
    /// The number of the process; the test chooses it.
    pub process: u32,
    /// The number of the acquisition in this process.
    pub number: u64,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.process, self.number)
    }
}

/// What a client saw or did, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The time. For a begin it is read before, for an end after.
    pub at: Instant,
    /// The acquisition to which it belongs.
    pub op: Op,
    /// What was seen or done.
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
    /// The client is about to call acquire.
    Asked {
        /// The lock or the semaphore.
        name: LockName,
        /// How many permits the semaphore has, if it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        permits: Option<u32>,
        /// Whether it asks as a reader.
        #[serde(default)]
        mode: Mode,
    },
    /// The store certainly has a queue entry for this acquisition now, and it is the oldest one of
    /// its process. Fairness counts from here.
    Queued,
    /// The acquire returned a guard.
    Acquired {
        /// The guard's owner.
        owner: OwnerId,
        /// The guard's token.
        token: FencingToken,
        /// The end of validity that the guard reported; `None` if it was no longer valid.
        until: Option<Instant>,
        /// The lock that it holds, if it is not the requested one: a slot of a semaphore, or one of
        /// several locks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lock: Option<LockName>,
    },
    /// The acquire returned without a guard.
    NotAcquired {
        /// The token in the `Busy` answer, if it was one.
        token: Option<FencingToken>,
        /// The reason, in words.
        why: String,
    },
    /// The acquire's future was dropped.
    Cancelled,
    /// The guard's lock is detached, and the guard is gone. Its holder has given it up before.
    Detached,
    /// The client is about to attach a detached lock.
    Attaching {
        /// The lock.
        name: LockName,
        /// The acquisition whose guard was detached.
        of: Op,
    },
    /// The attach was refused: the store no longer has the grant.
    NotHeld,
    /// The holder checked its guard.
    Looked {
        /// The end of validity that the guard reported; `None` if it was no longer valid.
        until: Option<Instant>,
    },
    /// The guard reported its loss.
    Lost {
        /// The reported reason.
        reason: LossReason,
    },
    /// The holder is about to release or drop the guard, and no longer relies on it.
    GivenUp,
    /// The release has returned.
    Released {
        /// `None` for success, else the error.
        failed: Option<String>,
    },
    /// The holder read a fenced resource, and wrote a new value there.
    Updated {
        /// The resource.
        resource: String,
        /// The token of the holder.
        token: FencingToken,
        /// When the holder began to read.
        began: Instant,
        /// The value that it read. The first value of a resource is 0.
        read: u64,
        /// The value that it wrote. Each write has a different value.
        wrote: u64,
        /// Whether the fence admitted the write.
        admitted: bool,
    },
    /// An operator has released a name by force. The guard of the former holder may stay valid
    /// until its next renewal.
    Forced {
        /// The released name.
        name: LockName,
        /// When the operator began.
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

    /// Reads what [`to_lines`](History::to_lines) wrote. Skips empty lines.
    ///
    /// # Errors
    /// The error of the first bad line. A killed child may have written half a line.
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
