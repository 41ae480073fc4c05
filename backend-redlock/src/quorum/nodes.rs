//! All nodes together: their common clock and settings, for which of them a call waits, and
//! background tasks.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use backend_redis::node::NodeSettings;
use lock_core::{Env as _, Error, ErrorKind, Guarantees, RwLock, SystemEnv, jittered};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    guarantees::{self, Basis},
    margin_and_waits::Options,
    node::{Node, NodeAnswer, micros},
    pushes::WakeRegistry,
    retained::RetainedGrants,
};
use crate::{
    protocol::{clock, vote::majority},
    scripts::{self, ScriptCall},
    tunables::PROBE_PAUSES,
};

/// The nodes and what this client knows of them.
pub(crate) struct Quorum {
    pub(crate) nodes: Vec<Node>,
    pub(crate) options: Options,
    pub(crate) wake: Arc<WakeRegistry>,
    pub(crate) retained: RetainedGrants,
    /// The last number that this client proposed: two calls of one client never propose the same.
    proposed: AtomicU64,
    promised: RwLock<(Basis, Arc<Guarantees>)>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("nodes", &self.nodes)
            .field("options", &self.options)
            .finish()
    }
}

impl Quorum {
    /// The addresses as they were configured. An id of the server would not do: a run id changes
    /// with a restart, and an id that a node stores is lost with its data, while the store goes on.
    pub(crate) fn name_of_store(&self) -> String {
        let mut nodes: Vec<_> = self.nodes.iter().map(|node| node.address.as_str()).collect();
        nodes.sort_unstable();
        format!("redlock:{}:{}", nodes.join(","), self.nodes[0].server.epoch_key())
    }

    pub(crate) fn new(nodes: Vec<Node>, options: Options, wake: Arc<WakeRegistry>) -> Self {
        let basis = Basis::of(&nodes);
        let promised = guarantees::of(&basis, &options, &nodes);
        Self {
            nodes,
            options,
            wake,
            retained: RetainedGrants::default(),
            proposed: AtomicU64::new(0),
            promised: RwLock::new((basis, Arc::new(promised))),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    pub(crate) fn majority(&self) -> usize {
        majority(self.nodes.len())
    }

    /// The nodes to ask: those for which calls wait, or all nodes if those are too few.
    pub(crate) fn contacts(&self) -> Vec<usize> {
        let all = 0..self.nodes.len();
        let trusted: Vec<_> = all.clone().filter(|at| self.nodes[*at].is_trusted()).collect();
        if trusted.len() >= self.majority() { trusted } else { all.collect() }
    }

    /// The nodes' clock now, as far as this client knows it, in microseconds.
    pub(crate) fn clock(&self) -> Option<u64> {
        let now = i64::try_from(micros(SystemEnv.now())).unwrap_or(i64::MAX);
        u64::try_from(self.offset()? + now).ok()
    }

    /// The clock past which a node's clock is ahead, or a call that is sent now is a late request.
    pub(crate) fn late(&self, clock: u64, limit: Duration) -> u64 {
        let room = u64::try_from((limit + self.options.clock_bound).as_micros());
        clock.saturating_add(room.unwrap_or(u64::MAX))
    }

    /// A number to propose: the clock, and above all that this client has proposed.
    pub(crate) fn propose(&self, clock: u64) -> u64 {
        let next = |last: u64| Some(clock.max(last + 1));
        let last = self.proposed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        clock.max(last.unwrap_or_default() + 1)
    }

    /// How far the nodes' clock is ahead of this process's, in microseconds.
    pub(crate) fn offset(&self) -> Option<i64> {
        clock::median(&self.nodes.iter().map(Node::span).collect::<Vec<_>>())
    }

    /// Sends one call to one node. If the node cannot be reached, a probe starts.
    pub(crate) async fn put(
        self: &Arc<Self>,
        at: usize,
        call: &ScriptCall,
    ) -> Result<NodeAnswer, Error> {
        let node = &self.nodes[at];
        let arguments: Vec<&[u8]> = call.arguments.iter().map(String::as_bytes).collect();
        let start = node.start_call();
        let value = if call.in_epoch {
            node.server.call_in_epoch(call.script, &call.keys, &arguments).await
        } else {
            node.server.call(call.script, &call.keys, &arguments).await
        };
        match value {
            Ok(value) => {
                let known = node.run();
                let answer = node.end_call(start, value);
                if known != node.run() {
                    self.compare_runs();
                }
                answer
            }
            Err(error) => {
                if error.is_retryable() {
                    self.suspect(at, &error.to_string());
                }
                Err(error)
            }
        }
    }

    /// If two addresses were one server, its vote would count twice.
    fn compare_runs(&self) {
        let runs: Vec<_> = self.nodes.iter().map(Node::run).collect();
        for (at, run) in runs.iter().enumerate() {
            let same = |other: &usize| *other != at && run.is_some() && runs[*other] == *run;
            let twin = (0..runs.len()).find(same);
            self.nodes[at].set_twin(twin.map(|other| self.nodes[other].address.clone()));
        }
    }

    /// From now on no call waits for this node, until it has answered a probe.
    pub(crate) fn suspect(self: &Arc<Self>, at: usize, why: &str) {
        if self.nodes[at].suspect(why) {
            let (probe, closing) = (Probe(Arc::downgrade(self), at), self.closing.clone());
            self.spawn_background(async move {
                tokio::select! {
                    () = closing.cancelled() => {}
                    () = probe.run() => {}
                }
            });
        }
    }

    /// Runs a background task. `close` waits for it.
    pub(crate) fn spawn_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        // Without a runtime the work is not done, and the lease is the bound.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.tasks.spawn(work);
        }
    }

    /// Waits for the tasks in the background, for at most `limit`, and closes the connections.
    pub(crate) async fn close(&self, limit: Duration) {
        self.closing.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(limit, self.tasks.wait()).await;
        for node in &self.nodes {
            node.server.close();
        }
    }

    /// Ends when the client closes.
    pub(crate) async fn closed(&self) {
        self.closing.cancelled().await;
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// The settings that all nodes have.
    ///
    /// # Errors
    /// `Config` if they differ.
    pub(crate) fn settings(&self) -> Result<NodeSettings, Error> {
        let first = self.nodes[0].server.agreed_settings();
        let Some(other) = self.nodes.iter().find(|node| node.server.agreed_settings() != first)
        else {
            return Ok(first);
        };
        let show = |settings: NodeSettings| {
            let lease = humantime::format_duration(settings.longest_lease);
            let quarantine = if settings.quarantine { "on" } else { "off" };
            format!("longest lease {lease}, quarantine {quarantine}")
        };
        let message = format!(
            "the nodes' settings differ: {} has {}, {} has {}; set the same for all with init",
            self.nodes[0].address,
            show(first),
            other.address,
            show(other.server.agreed_settings())
        );
        Err(Error::new(ErrorKind::Config, message))
    }

    pub(crate) fn promised(&self) -> Arc<Guarantees> {
        let basis = Basis::of(&self.nodes);
        let known = self.promised.read().clone();
        if known.0 == basis {
            return known.1;
        }
        let promised = Arc::new(guarantees::of(&basis, &self.options, &self.nodes));
        let entry = (basis, Arc::clone(&promised));
        *self.promised.write() = entry;
        promised
    }

    /// Asks a node for its clock and settings.
    pub(crate) async fn hello(self: &Arc<Self>, at: usize) -> Result<Option<NodeSettings>, Error> {
        let answer = self.put(at, &scripts::hello(&self.nodes[at].server)).await?;
        if answer.text(2)?.is_empty() {
            return Ok(None);
        }
        let longest_lease = Duration::from_micros(answer.number(2)?);
        Ok(Some(NodeSettings { longest_lease, quarantine: answer.text(3)? == "on" }))
    }

    /// The error if fewer nodes than a majority answered.
    pub(crate) fn too_few(&self, answered: usize, failure: Option<Error>) -> Error {
        let message = format!(
            "{answered} of {} nodes answered, and {} are needed",
            self.nodes.len(),
            self.majority()
        );
        let kind = failure.as_ref().filter(|error| !error.is_retryable()).map(Error::kind);
        let error = Error::new(kind.unwrap_or(ErrorKind::Unavailable), message);
        match failure {
            Some(failure) => error.with_source(failure),
            None => error,
        }
    }
}

/// A probe of a node for which no call waits. If the probe is dropped with its runtime, calls wait
/// for the node again: otherwise nothing would ask it.
struct Probe(Weak<Quorum>, usize);

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(quorum) = self.0.upgrade() {
            quorum.nodes[self.1].unprobed();
        }
    }
}

impl Probe {
    /// Asks until the node answers within the time limit of calls.
    async fn run(mut self) {
        let at = self.1;
        let [mut pause, longest] = PROBE_PAUSES;
        loop {
            let Some(quorum) = self.0.upgrade() else { return };
            let start = SystemEnv.now();
            let limit = quorum.options.longest_wait();
            if quorum.hello(at).await.is_ok() && SystemEnv.now().since(start) <= limit {
                // From here on another probe may start.
                self.0 = Weak::new();
                quorum.nodes[at].trust();
                return;
            }
            drop(quorum);
            tokio::time::sleep(jittered(&SystemEnv, pause)).await;
            pause = (pause * 2).min(longest);
        }
    }
}
