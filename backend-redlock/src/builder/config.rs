//! The builder of a store.

use std::{sync::Arc, time::Duration};

use backend_redis::{
    RedisBuilder,
    node::{Listener, Node as Server},
};
use lock_core::{Backend, Env as _, Error, ErrorKind, SystemEnv};

use super::connect::connect_all;
use crate::{
    backend::Redlock,
    quorum::{
        margin_and_waits::Options,
        node::Node,
        nodes::Quorum,
        pushes::{NodeListener, WakeRegistry},
    },
    tunables::{CLOCK_BOUND, CLOCK_BOUNDS, TIMEOUT},
};

/// Describes a store on several independent Redis servers.
#[derive(Clone, Debug)]
pub struct RedlockBuilder {
    nodes: Vec<RedisBuilder>,
    options: Options,
    prefix: String,
}

impl RedlockBuilder {
    /// A store on these servers, each with its own TLS and user. There must be an odd number of
    /// them, at least three, and they must be independent of each other.
    ///
    /// The prefix and the timeout of the store replace those of the nodes.
    #[must_use]
    pub fn new(nodes: impl IntoIterator<Item = RedisBuilder>) -> Self {
        Self {
            nodes: nodes.into_iter().collect(),
            options: Options { node_timeout: None, clock_bound: CLOCK_BOUND, timeout: TIMEOUT },
            prefix: "leasehold-redlock".to_owned(),
        }
    }

    /// How long an operation waits for a node that does not answer, before it goes on without the
    /// node. Default: a hundredth of the lease, at least 5 ms and at most 50 ms. If more than a
    /// minority is silent, the operation waits ten times as long, but at most half the timeout.
    #[must_use]
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.options.node_timeout = Some(timeout);
        self
    }

    /// How far a node's clock may be from the median of the nodes. Default: 100 ms. All clients of
    /// a store must agree. The client takes twice the bound off the validity of each lease. The
    /// shortest lease is four times the bound plus 10 ms.
    #[must_use]
    pub fn clock_bound(mut self, bound: Duration) -> Self {
        self.options.clock_bound = bound;
        self
    }

    /// The prefix of all keys, on all nodes. Default: `leasehold-redlock`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The time limit of connecting to a node and of each command. After that the client drops the
    /// connection. Default: 1 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// The longest lease that this client expects of all nodes. Default: what they have, or 30 s.
    #[must_use]
    pub fn longest_lease(mut self, longest: Duration) -> Self {
        self.nodes = self.nodes.into_iter().map(|node| node.longest_lease(longest)).collect();
        self
    }

    /// Whether a node goes into quarantine after it has lost its data. Default: what the nodes
    /// have, or on.
    #[must_use]
    pub fn quarantine(mut self, on: bool) -> Self {
        self.nodes = self.nodes.into_iter().map(|node| node.quarantine(on)).collect();
        self
    }

    /// Connects to at least a majority. A background task keeps trying to connect to the other
    /// nodes.
    ///
    /// # Errors
    /// `InvalidInput` for a setting or a number of nodes that is not allowed; `Config` if two nodes
    /// are the same server; `Auth` or `Config` if a node refuses this client; `Unavailable` if no
    /// majority answers.
    pub async fn build(self) -> Result<Arc<dyn Backend>, Error> {
        let open = async {
            let quorum = Arc::new(self.quorum()?);
            match connect_all(&quorum).await {
                Ok(()) => Ok(quorum),
                Err(error) => {
                    quorum.close(Duration::ZERO).await;
                    Err(error)
                }
            }
        };
        let quorum = open.await.map_err(|error: Error| error.at("redlock", "connect"))?;
        Ok(Arc::new(Redlock::new(quorum)))
    }

    pub(crate) fn quorum(self) -> Result<Quorum, Error> {
        let Self { nodes, options, prefix } = self;
        check(nodes.len(), &options)?;
        let (wake, client) = (Arc::new(WakeRegistry::default()), SystemEnv.random());
        let mut all: Vec<Node> = Vec::new();
        for (at, server) in nodes.into_iter().enumerate() {
            let listener: Arc<dyn Listener> =
                Arc::new(NodeListener { wake: Arc::clone(&wake), node: at });
            let server = server.prefix(prefix.clone()).timeout(options.timeout);
            let node = Node::new(Server::new(server, client, listener)?);
            if all.iter().any(|other| other.address == node.address) {
                return Err(refuse(format!(
                    "{} is named twice, and its vote would count twice; nodes must be independent servers",
                    node.address
                )));
            }
            all.push(node);
        }
        Ok(Quorum::new(all, options, wake))
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
            "{nodes} nodes are not allowed, since {why}; there must be 3, 5, 7 and so on"
        )));
    }
    let bound = options.clock_bound;
    if !CLOCK_BOUNDS.contains(&bound) {
        return Err(refuse(format!(
            "clock_bound {} is not allowed; it must be between {} and {}",
            show(bound),
            show(*CLOCK_BOUNDS.start()),
            show(*CLOCK_BOUNDS.end())
        )));
    }
    if let Some(wait) = options.node_timeout.filter(|wait| wait.is_zero() || *wait > timeout) {
        return Err(refuse(format!(
            "node_timeout {} is not allowed with timeout {}; it must be above 0s and no more than \
             that",
            show(wait),
            show(timeout)
        )));
    }
    Ok(())
}
