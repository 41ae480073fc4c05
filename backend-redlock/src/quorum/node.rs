//! One node as this client knows it: its clock, and whether calls wait for it.

use std::{fmt, sync::MutexGuard, time::Duration};

use backend_redis::node::{Node as Server, RunId, Value, list, not_understood, number, text};
use lock_core::{Env as _, Error, ErrorKind, Instant, Mutex, SystemEnv};

use crate::{
    protocol::clock::{Span, went_back},
    tunables::SPAN_KEPT,
};

pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) address: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Why no call waits for it now.
    suspected: Option<String>,
    probing: bool,
    /// The highest clock value received from it.
    stamp: u64,
    /// The most precise recent reading of its clock, and when it arrived.
    span: Option<(Span, Instant)>,
    run: Option<RunId>,
    /// The address of another node that is the same server.
    twin: Option<String>,
}

/// What is known of a node when a call begins.
#[derive(Clone, Copy)]
pub(crate) struct CallStart {
    sent: Instant,
    stamp: u64,
}

/// A node's answer to one of our scripts: `{word, clock, ...}`.
#[derive(Debug)]
pub(crate) struct NodeAnswer {
    pub(crate) word: String,
    pub(crate) parts: Vec<Value>,
    /// The reading of the node's clock; `None` if the clock went back.
    pub(crate) span: Option<Span>,
}

impl NodeAnswer {
    pub(crate) fn part(&self, at: usize) -> Result<&Value, Error> {
        self.parts.get(at).ok_or_else(not_understood)
    }

    pub(crate) fn number(&self, at: usize) -> Result<u64, Error> {
        number(self.part(at)?)
    }

    pub(crate) fn text(&self, at: usize) -> Result<&str, Error> {
        text(self.part(at)?)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.address).finish()
    }
}

/// Microseconds of this process's clock.
pub(crate) fn micros(at: Instant) -> u64 {
    at.as_nanos() / 1_000
}

impl Node {
    pub(crate) fn new(server: Server) -> Self {
        Self { address: server.address(), server, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn start_call(&self) -> CallStart {
        let stamp = self.state().stamp;
        CallStart { sent: SystemEnv.now(), stamp }
    }

    /// Reads the clock in an answer, and returns the answer.
    pub(crate) fn end_call(&self, start: CallStart, value: Value) -> Result<NodeAnswer, Error> {
        let received = SystemEnv.now();
        let parts = list(value)?;
        let [word, stamp, ..] = parts.as_slice() else { return Err(not_understood()) };
        let (word, stamp) = (text(word)?.to_owned(), number(stamp)?);
        let span = Span::new(stamp, micros(start.sent), micros(received));
        let back = went_back(start.stamp, stamp);
        let run = self.server.known_run_id();
        let mut state = self.state();
        state.stamp = if back { stamp } else { state.stamp.max(stamp) };
        let keep = |(old, at): &(Span, Instant)| {
            old.agrees(span) && old.width() < span.width() && received.since(*at) < SPAN_KEPT
        };
        if !state.span.as_ref().is_some_and(keep) {
            state.span = Some((span, received));
        }
        if state.run != run {
            state.run = run;
        }
        drop(state);
        if back {
            let seconds = Duration::from_micros(start.stamp - stamp);
            tracing::warn!(target: "leasehold", node = %self.address, ?seconds, "the node's clock went back: no vote");
        }
        Ok(NodeAnswer { word, parts, span: (!back).then_some(span) })
    }

    pub(crate) fn span(&self) -> Option<Span> {
        self.state().span.map(|(span, _)| span)
    }

    pub(crate) fn run(&self) -> Option<RunId> {
        self.state().run.clone()
    }

    /// Records that another node is the same server, or that none is.
    pub(crate) fn set_twin(&self, twin: Option<String>) {
        self.state().twin = twin;
    }

    /// Why it cannot vote although it answers.
    pub(crate) fn twin(&self) -> Option<Error> {
        let twin = self.state().twin.clone()?;
        let message = format!("is the same server as {twin}; nodes must be independent servers");
        Some(Error::new(ErrorKind::Config, message))
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.state().suspected.is_none()
    }

    pub(crate) fn suspected(&self) -> Option<String> {
        self.state().suspected.clone()
    }

    /// From now on calls do not wait for it. Returns `true` if the caller must start a probe.
    pub(crate) fn suspect(&self, why: &str) -> bool {
        let mut state = self.state();
        if state.suspected.is_none() {
            tracing::warn!(target: "leasehold", node = %self.address, why, "calls do not wait for the node until it answers a probe");
        }
        state.suspected = Some(why.to_owned());
        !std::mem::replace(&mut state.probing, true)
    }

    /// Its probe has ended, perhaps without an answer.
    pub(crate) fn unprobed(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.probing) {
            state.suspected = None;
        }
    }

    /// It has answered a probe.
    pub(crate) fn trust(&self) {
        let mut state = self.state();
        if state.suspected.take().is_some() {
            tracing::info!(target: "leasehold", node = %self.address, "the node answers again");
        }
        state.probing = false;
    }
}
