//! How a store is described: by a builder or a URL.

use std::{sync::Arc, time::Duration};

use backend_redis::{
    RedisBuilder,
    node::{Listener, Node},
};
use lock_core::{Backend, Env as _, Error, ErrorKind, SystemEnv};
use tokio::sync::mpsc;

use crate::{
    backend::Redlock,
    operate::too_short,
    peer::Peer,
    quorum::Quorum,
    wake::{Ear, Wake},
};

/// What the quorum itself needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) node_timeout: Option<Duration>,
    pub(crate) clock_bound: Duration,
    pub(crate) timeout: Duration,
}

impl Options {
    const LONGEST_DEFAULT: Duration = Duration::from_millis(50);

    /// How long a call about a lock of this lease waits for a node.
    pub(crate) fn wait(&self, lease: Duration) -> Duration {
        let default = (lease / 100).clamp(Duration::from_millis(5), Self::LONGEST_DEFAULT);
        self.node_timeout.unwrap_or(default)
    }

    /// The longest of these.
    pub(crate) fn longest_wait(&self) -> Duration {
        self.node_timeout.unwrap_or(Self::LONGEST_DEFAULT)
    }

    /// How long an operator's question waits for a node.
    pub(crate) fn patient_wait(&self) -> Duration {
        self.longest_wait().max(Duration::from_secs(1))
    }

    /// A lease of which enough is left after the margin for clocks.
    pub(crate) fn shortest_lease(&self) -> Duration {
        4 * self.clock_bound + Duration::from_millis(10)
    }

    pub(crate) fn bound_micros(&self) -> u64 {
        u64::try_from(self.clock_bound.as_micros()).unwrap_or(u64::MAX)
    }
}

/// Describes a store on several independent Redis servers.
#[derive(Clone, Debug)]
pub struct RedlockBuilder {
    nodes: Vec<RedisBuilder>,
    options: Options,
    prefix: String,
}

impl RedlockBuilder {
    /// A store on these servers, each with its own TLS and user. They must be an odd number, three or
    /// more, independent of each other.
    ///
    /// Prefix and timeout of the whole store win over those of a node.
    #[must_use]
    pub fn new(nodes: impl IntoIterator<Item = RedisBuilder>) -> Self {
        Self {
            nodes: nodes.into_iter().collect(),
            options: Options {
                node_timeout: None,
                clock_bound: Duration::from_millis(100),
                timeout: Duration::from_secs(1),
            },
            prefix: "leasehold-redlock".to_owned(),
        }
    }

    /// How long an operation waits for a node that has not answered before it goes on without it; ten
    /// times as long, but no longer than half the timeout, where more than a minority is silent. Default: a hundredth of the lease, at least 5 ms and at most 50 ms.
    #[must_use]
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.options.node_timeout = Some(timeout);
        self
    }

    /// How far a node's clock may be from the median of the nodes. Twice as much is taken off each
    /// lease's validity, and the shortest lease is four times as much and 10 ms. All clients of a
    /// store must agree. Default: 100 ms.
    #[must_use]
    pub fn clock_bound(mut self, bound: Duration) -> Self {
        self.options.clock_bound = bound;
        self
    }

    /// What all keys begin with, on all nodes. Default: `leasehold-redlock`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long connecting to a node and a command may take before the connection is given up.
    /// Default: 1 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// The longest lease that this client believes all nodes to have. Default: what they have, or
    /// 30 s.
    #[must_use]
    pub fn longest_lease(mut self, longest: Duration) -> Self {
        self.nodes = self.nodes.into_iter().map(|node| node.longest_lease(longest)).collect();
        self
    }

    /// Whether a node's loss of data is followed by its quarantine. Default: what the nodes have, or
    /// on.
    #[must_use]
    pub fn quarantine(mut self, on: bool) -> Self {
        self.nodes = self.nodes.into_iter().map(|node| node.quarantine(on)).collect();
        self
    }

    /// Connects to a majority at least. Nodes that cannot be reached are looked for in the background.
    ///
    /// # Errors
    /// `InvalidInput` for a setting or a number of nodes that is not allowed; `Config` where two nodes
    /// are the same server; `Auth` or `Config` where any node refuses this client; `Unavailable` where
    /// no majority answers.
    pub async fn build(self) -> Result<Arc<dyn Backend>, Error> {
        let open = async {
            let quorum = Arc::new(self.quorum()?);
            match meet(&quorum).await {
                Ok(()) => Ok(quorum),
                Err(error) => {
                    quorum.close(Duration::ZERO).await;
                    Err(error)
                }
            }
        };
        let quorum = open.await.map_err(|error: Error| error.at("redlock", "connect"))?;
        Ok(Arc::new(Redlock(quorum)))
    }

    pub(crate) fn quorum(self) -> Result<Quorum, Error> {
        let Self { nodes, options, prefix } = self;
        check(nodes.len(), &options)?;
        let (wake, client) = (Arc::new(Wake::default()), SystemEnv.random());
        let mut peers: Vec<Peer> = Vec::new();
        for (at, node) in nodes.into_iter().enumerate() {
            let ear: Arc<dyn Listener> = Arc::new(Ear { wake: Arc::clone(&wake), at });
            let node = node.prefix(prefix.clone()).timeout(options.timeout);
            let peer = Peer::new(Node::new(node, client, ear)?);
            if peers.iter().any(|other| other.address == peer.address) {
                return Err(refuse(format!(
                    "{} is named twice, and its vote would count twice; allowed are independent servers",
                    peer.address
                )));
            }
            peers.push(peer);
        }
        Ok(Quorum::new(peers, options, wake))
    }
}

fn refuse(message: String) -> Error {
    Error::new(ErrorKind::InvalidInput, message)
}

fn check(nodes: usize, options: &Options) -> Result<(), Error> {
    let timeout = options.timeout;
    let show = humantime::format_duration;
    if nodes < 3 || nodes.is_multiple_of(2) {
        let why = if nodes < 3 {
            "fewer than three survive no failure at all"
        } else {
            "an even number survives no more failures than one node fewer, and splits its votes"
        };
        return Err(refuse(format!(
            "{nodes} nodes are not allowed, since {why}; allowed are 3, 5, 7 and so on"
        )));
    }
    let bound = options.clock_bound;
    if bound < Duration::from_millis(1) || bound > Duration::from_secs(60) {
        return Err(refuse(format!(
            "clock_bound {} is not allowed; allowed are 1ms to 1m",
            show(bound)
        )));
    }
    if let Some(wait) = options.node_timeout.filter(|wait| wait.is_zero() || *wait > timeout) {
        return Err(refuse(format!(
            "node_timeout {} is not allowed with timeout {}; allowed is more than 0s, and no more than \
             that",
            show(wait),
            show(timeout)
        )));
    }
    Ok(())
}

/// How long a majority that has answered waits for the rest, when it connects.
const REST: Duration = Duration::from_millis(250);

/// Connects to all nodes at once.
async fn meet(quorum: &Arc<Quorum>) -> Result<(), Error> {
    let nodes = quorum.peers.len();
    let (tell, mut heard) = mpsc::channel(nodes);
    for at in 0..nodes {
        let (quorum, tell, own) = (Arc::clone(quorum), tell.clone(), Arc::clone(quorum));
        quorum.behind(async move {
            tell.send((at, own.hello(at).await)).await.ok();
        });
    }
    drop(tell);
    let mut silent: Vec<usize> = (0..nodes).collect();
    let (mut known, mut answered, mut failure) = (Vec::new(), 0, None);
    let mut rest = std::pin::pin!(tokio::time::sleep(quorum.options.patient_wait() * 60));
    loop {
        let word = tokio::select! {
            biased;
            word = heard.recv() => word,
            () = &mut rest => None,
        };
        let Some((at, settings)) = word else { break };
        silent.retain(|other| *other != at);
        match settings {
            Ok(settings) => {
                answered += 1;
                known.extend(settings);
                if answered == quorum.majority() {
                    rest.as_mut().reset(tokio::time::Instant::now() + REST);
                }
            }
            // A node that refuses this client will refuse it tomorrow: better told than borne.
            Err(error) if !error.is_retryable() => {
                let message = format!("{} cannot be used", quorum.peers[at].address);
                return Err(Error::new(error.kind(), message).with_source(error));
            }
            Err(error) => failure = Some(error),
        }
    }
    for at in silent {
        quorum.suspect(at, "no answer to the first greeting");
    }
    if answered < quorum.majority() {
        return Err(quorum.too_few(answered, failure));
    }
    if let Some((peer, twin)) = quorum.peers.iter().find_map(|peer| Some((peer, peer.twin()?))) {
        let message = format!("{} {twin}", peer.address);
        return Err(Error::new(ErrorKind::Config, message));
    }
    // A node that has lost its record, or is not there, is taken to have what the others have.
    let count = |settings| known.iter().filter(|other| **other == settings).count();
    if let Some(common) = known.iter().copied().max_by_key(|settings| count(*settings)) {
        for peer in &quorum.peers {
            let has_its_own = peer.span().is_some() && known.len() == answered;
            if !has_its_own {
                peer.node.believe(common);
            }
        }
    }
    let longest = quorum.peers[0].node.believed().longest_lease;
    let bound = quorum.options.clock_bound;
    if longest < 8 * bound { Err(too_short(longest, bound)) } else { Ok(()) }
}
