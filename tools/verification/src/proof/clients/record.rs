//! What all processes of a run have seen so far. The fault waits for events here.

use std::{collections::BTreeSet, time::Duration};

use lock_core::{FencingToken, Instant};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use conformance_tests::history::{Event, History, Op, What};

/// A line that a client process prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line {
    /// The process is connected.
    Ready,
    Saw(Event),
    /// The victim holds its lock and has read the registers.
    Holds(Op, FencingToken),
    /// The heir of this process has a queue entry, or has got the lock.
    Came {
        process: u32,
    },
    /// The process has closed its client, and so many of its tasks still run.
    Closed {
        process: u32,
        tasks: usize,
    },
}

/// The events so far. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Record(watch::Sender<Seen>);

/// The content of a [`Record`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) events: Vec<Event>,
    pub(crate) victim: Option<(Op, FencingToken)>,
    pub(crate) ready: usize,
    /// The processes whose heirs have a queue entry, or have had the lock.
    pub(crate) came: BTreeSet<u32>,
    /// Processes that have closed their client, with the number of tasks that still ran.
    pub(crate) closed: Vec<(u32, usize)>,
}

impl Seen {
    /// When this acquisition reported its loss.
    pub(crate) fn loss(&self, of: Op) -> Option<Instant> {
        let told = |event: &&Event| event.op == of && matches!(event.what, What::Lost { .. });
        self.events.iter().find(told).map(|event| event.at)
    }

    /// When a holder with a token above `token` wrote to the fenced register `name`, after `since`.
    pub(crate) fn successor(
        &self,
        name: &str,
        above: FencingToken,
        since: Instant,
    ) -> Option<Instant> {
        let later = |event: &&Event| match &event.what {
            What::Updated { resource, token, admitted: true, .. } => {
                *token > above && event.at > since && resource.strip_prefix("fenced ") == Some(name)
            }
            _ => false,
        };
        self.events.iter().find(later).map(|event| event.at)
    }
}

impl Record {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::default())
    }

    pub(crate) fn add(&self, event: Event) {
        self.0.send_modify(|seen| seen.events.push(event));
    }

    pub(crate) fn take(&self, line: Line) {
        match line {
            Line::Saw(event) => self.add(event),
            Line::Holds(op, token) => {
                self.0.send_modify(|seen| {
                    seen.victim.get_or_insert((op, token));
                });
            }
            Line::Closed { process, tasks } => {
                self.0.send_modify(|seen| seen.closed.push((process, tasks)));
            }
            Line::Came { process } => {
                self.0.send_modify(|seen| {
                    seen.came.insert(process);
                });
            }
            Line::Ready => self.0.send_modify(|seen| seen.ready += 1),
        }
    }

    /// Waits until `look` returns something; `None` after `limit`.
    pub(crate) async fn until<T>(
        &self,
        limit: Duration,
        look: impl Fn(&Seen) -> Option<T>,
    ) -> Option<T> {
        let mut seen = self.0.subscribe();
        let waited = tokio::time::timeout(limit, async {
            loop {
                if let Some(found) = look(&seen.borrow_and_update()) {
                    return Some(found);
                }
                seen.changed().await.ok()?;
            }
        });
        waited.await.ok().flatten()
    }

    pub(crate) fn closed(&self) -> Vec<(u32, usize)> {
        self.0.borrow().closed.clone()
    }

    pub(crate) fn history(&self) -> History {
        History::new(self.0.borrow().events.clone())
    }
}
