//! All nodes together: asking many at once, waiting for few, finishing the rest behind.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use backend_redis::node::{Script, Settings};
use lock_core::{Env as _, Error, ErrorKind, Guarantees, SystemEnv, jittered};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    batch::{Gathering, HABIT},
    clock,
    config::Options,
    guarantees,
    lost::Spared,
    peer::{Answer, Peer, micros},
    scripts,
    vote::majority,
    wake::Wake,
};

/// The nodes and what this client knows of them.
pub(crate) struct Quorum {
    pub(crate) peers: Vec<Peer>,
    pub(crate) options: Options,
    pub(crate) wake: Arc<Wake>,
    pub(crate) spared: Spared,
    pub(crate) gathering: Gathering,
    /// The last number that this client proposed: two calls of one client never propose the same.
    proposed: AtomicU64,
    promised: RwLock<(Basis, Arc<Guarantees>)>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// What is promised rests on this.
#[derive(Clone, PartialEq)]
pub(crate) struct Basis {
    pub(crate) settings: Settings,
    /// A node that may remove held locks, and its policy.
    pub(crate) evicting: Option<(String, String)>,
    /// Why a setting that this client was not told is no basis.
    pub(crate) untold: Option<String>,
}

impl Basis {
    fn of(peers: &[Peer]) -> Self {
        let evicting = |peer: &Peer| Some((peer.address.clone(), peer.node.evicting()?));
        Self {
            settings: peers[0].node.believed(),
            evicting: peers.iter().find_map(evicting),
            untold: peers.iter().find_map(|peer| peer.node.untold()),
        }
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("peers", &self.peers)
            .field("options", &self.options)
            .finish()
    }
}

/// One script call, the same for every node.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    /// Whether it may grant.
    pub(crate) in_epoch: bool,
    pub(crate) keys: Vec<String>,
    pub(crate) arguments: Vec<String>,
}

impl Call {
    pub(crate) fn plain(
        script: &'static Script,
        keys: impl Into<Vec<String>>,
        arguments: Vec<String>,
    ) -> Arc<Self> {
        Arc::new(Self { script, in_epoch: false, keys: keys.into(), arguments })
    }
}

impl Quorum {
    pub(crate) fn name_of_store(&self) -> String {
        let mut nodes: Vec<_> = self.peers.iter().map(|peer| peer.address.as_str()).collect();
        nodes.sort_unstable();
        format!("redlock:{}:{}", nodes.join(","), self.peers[0].node.epoch_key())
    }

    pub(crate) fn new(peers: Vec<Peer>, options: Options, wake: Arc<Wake>) -> Self {
        let basis = Basis::of(&peers);
        let promised = guarantees::of(&basis, &options, &peers);
        Self {
            peers,
            options,
            wake,
            spared: Spared::default(),
            gathering: Gathering::new(HABIT),
            proposed: AtomicU64::new(0),
            promised: RwLock::new((basis, Arc::new(promised))),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    pub(crate) fn majority(&self) -> usize {
        majority(self.peers.len())
    }

    /// Whom to ask: who is worth waiting for, or all where those are too few.
    pub(crate) fn contacts(&self) -> Vec<usize> {
        let all = 0..self.peers.len();
        let trusted: Vec<_> = all.clone().filter(|at| self.peers[*at].is_trusted()).collect();
        if trusted.len() >= self.majority() { trusted } else { all.collect() }
    }

    /// The nodes' clock now, as far as this client knows it, in microseconds.
    pub(crate) fn clock(&self) -> Option<u64> {
        let now = i64::try_from(micros(SystemEnv.now())).unwrap_or(i64::MAX);
        u64::try_from(self.offset()? + now).ok()
    }

    /// A number to propose: the clock, and above all that this client has proposed.
    pub(crate) fn propose(&self, clock: u64) -> u64 {
        let next = |last: u64| Some(clock.max(last + 1));
        let last = self.proposed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        clock.max(last.unwrap_or_default() + 1)
    }

    /// How far the nodes' clock is ahead of this process's, in microseconds.
    pub(crate) fn offset(&self) -> Option<i64> {
        clock::median(&self.peers.iter().map(Peer::span).collect::<Vec<_>>())
    }

    /// Reads the nodes' clocks.
    ///
    /// # Errors
    /// Where no majority answers.
    pub(crate) async fn refresh(self: &Arc<Self>) -> Result<(), Error> {
        let keys = vec![self.peers[0].node.epoch_key()];
        let call = Call::plain(&scripts::HELLO, keys, Vec::new());
        let mut round = self.ask(&self.contacts(), &call, self.options.patient_wait());
        let (mut answered, mut failure) = (0, None);
        while let Some((_, answer)) = round.next().await {
            match answer {
                Ok(_) => answered += 1,
                Err(error) => failure = Some(error),
            }
        }
        round.finish(self, |_, _| {});
        if answered < self.majority() { Err(self.too_few(answered, failure)) } else { Ok(()) }
    }

    /// One call to one node. Who cannot be reached is probed.
    pub(crate) async fn put(self: &Arc<Self>, at: usize, call: &Call) -> Result<Answer, Error> {
        let peer = &self.peers[at];
        let arguments: Vec<&[u8]> = call.arguments.iter().map(String::as_bytes).collect();
        let before = peer.before();
        let value = if call.in_epoch {
            peer.node.call_in_epoch(call.script, &call.keys, &arguments).await
        } else {
            peer.node.call(call.script, &call.keys, &arguments).await
        };
        match value {
            Ok(value) => {
                let known = peer.run();
                let answer = peer.after(before, value);
                if known != peer.run() {
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

    /// Two addresses of one server would count one vote twice.
    fn compare_runs(&self) {
        let runs: Vec<_> = self.peers.iter().map(Peer::run).collect();
        for (at, run) in runs.iter().enumerate() {
            let same = |other: &usize| *other != at && run.is_some() && runs[*other] == *run;
            let twin = (0..runs.len()).find(same);
            self.peers[at].set_twin(twin.map(|other| self.peers[other].address.clone()));
        }
    }

    /// Nobody waits for this node any more, until it has answered a probe.
    pub(crate) fn suspect(self: &Arc<Self>, at: usize, why: &str) {
        if self.peers[at].suspect(why) {
            let (probing, closing) = (Probing(Arc::downgrade(self), at), self.closing.clone());
            self.behind(async move {
                tokio::select! {
                    () = closing.cancelled() => {}
                    () = probing.run() => {}
                }
            });
        }
    }

    /// Does something in the background; `close` waits for it.
    pub(crate) fn behind(&self, work: impl Future<Output = ()> + Send + 'static) {
        // Without a runtime there is nobody to do it, and the lease is the bound.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.tasks.spawn(work);
        }
    }

    /// Ends what runs behind, after at most `limit`.
    pub(crate) async fn close(&self, limit: Duration) {
        self.closing.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(limit, self.tasks.wait()).await;
        for peer in &self.peers {
            peer.node.close();
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
    /// `Config` where they differ.
    pub(crate) fn settings(&self) -> Result<Settings, Error> {
        let first = self.peers[0].node.believed();
        let Some(other) = self.peers.iter().find(|peer| peer.node.believed() != first) else {
            return Ok(first);
        };
        let show = |settings: Settings| {
            let lease = humantime::format_duration(settings.longest_lease);
            let quarantine = if settings.quarantine { "on" } else { "off" };
            format!("longest lease {lease}, quarantine {quarantine}")
        };
        let message = format!(
            "the nodes' settings differ: {} has {}, {} has {}; allowed is the same for all, set them \
             with init",
            self.peers[0].address,
            show(first),
            other.address,
            show(other.node.believed())
        );
        Err(Error::new(ErrorKind::Config, message))
    }

    pub(crate) fn promised(&self) -> Arc<Guarantees> {
        let basis = Basis::of(&self.peers);
        let known = self.promised.read().unwrap_or_else(PoisonError::into_inner).clone();
        if known.0 == basis {
            return known.1;
        }
        let promised = Arc::new(guarantees::of(&basis, &self.options, &self.peers));
        let entry = (basis, Arc::clone(&promised));
        *self.promised.write().unwrap_or_else(PoisonError::into_inner) = entry;
        promised
    }

    /// Asks a node for its clock and settings.
    pub(crate) async fn hello(self: &Arc<Self>, at: usize) -> Result<Option<Settings>, Error> {
        let keys = vec![self.peers[at].node.epoch_key()];
        let answer = self.put(at, &Call::plain(&scripts::HELLO, keys, Vec::new())).await?;
        if answer.text(2)?.is_empty() {
            return Ok(None);
        }
        let longest_lease = Duration::from_micros(answer.number(2)?);
        Ok(Some(Settings { longest_lease, quarantine: answer.text(3)? == "on" }))
    }
}

/// A probe of a suspected node. Where it is dropped with its runtime, nobody would ask the node again: then it
/// is as good as the next call finds it.
struct Probing(Weak<Quorum>, usize);

impl Drop for Probing {
    fn drop(&mut self) {
        if let Some(quorum) = self.0.upgrade() {
            quorum.peers[self.1].unprobed();
        }
    }
}

impl Probing {
    /// Asks until the node answers within the time that calls are given.
    async fn run(mut self) {
        let at = self.1;
        let mut pause = Duration::from_millis(20);
        loop {
            let Some(quorum) = self.0.upgrade() else { return };
            let start = SystemEnv.now();
            let limit = quorum.options.longest_wait();
            if quorum.hello(at).await.is_ok() && SystemEnv.now().since(start) <= limit {
                // From here on another may probe it.
                self.0 = Weak::new();
                quorum.peers[at].trust();
                return;
            }
            drop(quorum);
            tokio::time::sleep(jittered(&SystemEnv, pause)).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}
