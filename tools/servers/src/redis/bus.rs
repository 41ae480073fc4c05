//! The bus of a Redis Cluster with a proxy (gate) before each node, so that a test can divide the
//! cluster.
//!
//! Nodes announce their gates in place of their own bus ports. The head of a node's first message
//! names the node, so the gate knows both ends of a link. Without TLS only.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    net::TcpStream,
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use crate::{
    error::{KitError, Result},
    machine::ports::Port,
};

/// Where the sender's id stands in the head of every message of the bus.
const SENDER: std::ops::Range<usize> = 40..80;

/// The state of the links between nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Links {
    /// Links open now, by the indexes of the node that made it and of the node that it leads to.
    pub open: BTreeMap<(usize, usize), u64>,
    /// Links ended because they led from one side to the other.
    pub cut: u64,
    /// Links refused for it.
    pub refused: u64,
}

impl Links {
    fn crossing(&self, apart: &BTreeSet<usize>) -> u64 {
        let across = |(from, to): &(usize, usize)| apart.contains(from) != apart.contains(to);
        self.open.iter().filter(|(ends, _)| across(ends)).map(|(_, links)| links).sum()
    }
}

#[derive(Debug, Default)]
struct State {
    /// The nodes of one side; all others are the other one.
    apart: watch::Sender<BTreeSet<usize>>,
    links: watch::Sender<Links>,
    ids: Mutex<Vec<String>>,
}

/// The gates of all nodes.
#[derive(Debug, Default)]
pub(super) struct Bus {
    gates: Vec<Gate>,
    state: Arc<State>,
}

#[derive(Debug)]
struct Gate {
    port: Port,
    acceptor: JoinHandle<()>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        // Its links live in it and end with it.
        self.acceptor.abort();
    }
}

impl Bus {
    /// Puts a gate before the bus port of the next node; the port to announce.
    pub(super) fn add_gate(&mut self, behind: SocketAddr) -> Result<u16> {
        let (port, listener) = Port::listen()?;
        let (to, state) = (self.gates.len(), Arc::clone(&self.state));
        let acceptor = tokio::spawn(async move {
            let mut links = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok((link, _)) = accepted else { continue };
                        links.spawn(pass(link, to, behind, Arc::clone(&state)));
                    }
                    _ended = links.join_next(), if !links.is_empty() => {}
                }
            }
        });
        let number = port.number();
        self.gates.push(Gate { port, acceptor });
        Ok(number)
    }

    /// The gate of a node.
    pub(super) fn port(&self, node: usize) -> u16 {
        self.gates[node].port.number()
    }

    /// Tells the next node's id; nobody else comes through.
    pub(super) fn knows(&self, id: String) {
        self.state.ids.lock().unwrap_or_else(PoisonError::into_inner).push(id);
    }

    pub(super) fn links(&self) -> Links {
        self.state.links.borrow().clone()
    }

    /// Ends all links between these nodes and the others, and lets none pass until it is called
    /// with nobody. Returns how many were ended.
    pub(super) async fn divide(&self, apart: BTreeSet<usize>) -> Result<u64> {
        let before = self.links().cut;
        self.state.apart.send_replace(apart.clone());
        let (mut links, limit) = (self.state.links.subscribe(), Duration::from_secs(60));
        let ended = links.wait_for(|links| links.crossing(&apart) == 0);
        let what = || "links of the bus to end".to_owned();
        let log = || format!("{:?}", self.links());
        match tokio::time::timeout(limit, ended).await {
            Ok(Ok(links)) => Ok(links.cut - before),
            _ => Err(KitError::TimedOut { what: what(), waited: limit, log: log() }),
        }
    }
}

async fn pass(mut link: TcpStream, to: usize, behind: SocketAddr, state: Arc<State>) {
    let Some(from) = sender(&link, &state).await else { return };
    let ends = (from, to);
    let mut apart = state.apart.subscribe();
    let across = |apart: &BTreeSet<usize>| apart.contains(&from) != apart.contains(&to);
    if across(&apart.borrow_and_update()) {
        state.links.send_modify(|links| links.refused += 1);
        return;
    }
    let Ok(mut node) = TcpStream::connect(behind).await else { return };
    state.links.send_modify(|links| *links.open.entry(ends).or_default() += 1);
    let was_cut = tokio::select! {
        biased;
        divided = apart.wait_for(across) => divided.is_ok(),
        _ended = tokio::io::copy_bidirectional(&mut link, &mut node) => false,
    };
    drop((link, node));
    state.links.send_modify(|links| {
        *links.open.entry(ends).or_default() -= 1;
        links.cut += u64::from(was_cut);
    });
}

/// Which node a link comes from, by its first message.
async fn sender(link: &TcpStream, state: &State) -> Option<usize> {
    let mut head = [0; SENDER.end];
    while link.peek(&mut head).await.ok().filter(|read| *read > 0)? < head.len() {
        // The rest is on its way: one message is one write.
        tokio::task::yield_now().await;
    }
    let ids = state.ids.lock().unwrap_or_else(PoisonError::into_inner);
    ids.iter().position(|id| id.as_bytes() == &head[SENDER])
}
