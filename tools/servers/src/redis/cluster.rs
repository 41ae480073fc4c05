//! A Redis Cluster: masters that share the slots, each with replicas.

use std::{collections::BTreeSet, net::SocketAddr};

use tempfile::TempDir;

use crate::{
    error::{KitError, Result},
    machine::{
        ports::Port,
        tls::Certificates,
        wait::{READY_WITHIN, until},
    },
    redis::{
        bus::{Bus, Links},
        server::{Redis, RedisOptions},
    },
    server::Server as _,
};

/// The number of slots of every Redis Cluster.
const SLOTS: usize = 16_384;
/// A master that is silent for this long is replaced by a replica, unless the options say
/// otherwise.
const NODE_TIMEOUT_MS: u32 = 1_000;

/// A running Redis Cluster.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
    masters: usize,
    ports: Vec<Port>,
    /// In one that can be divided.
    bus: Option<Bus>,
    certificates: Option<(TempDir, Certificates)>,
}

impl RedisCluster {
    /// Starts `masters` masters with `replicas` replicas each, and waits until every node calls the
    /// cluster whole and every replica is in step.
    ///
    /// # Errors
    ///
    /// [`KitError`], with the end of a server's log where it has one.
    pub async fn start(masters: usize, replicas: usize, options: RedisOptions) -> Result<Self> {
        Self::start_on(None, masters, replicas, options).await
    }

    /// The same, with a bus that [`divide`](Self::divide) can divide; without TLS.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_divisible(
        masters: usize,
        replicas: usize,
        options: RedisOptions,
    ) -> Result<Self> {
        Self::start_on(Some(Bus::default()), masters, replicas, options).await
    }

    async fn start_on(
        mut bus: Option<Bus>,
        masters: usize,
        replicas: usize,
        options: RedisOptions,
    ) -> Result<Self> {
        let count = masters * (1 + replicas);
        let mut nodes = Vec::with_capacity(count);
        let mut ports = Vec::with_capacity(count);
        let certificates = options.group_certificates()?;
        let mut options = options.in_group(certificates.as_ref().map(|(_, files)| files));
        if certificates.is_some() {
            options = options.line("tls-cluster yes");
        }
        for _ in 0..count {
            // The default bus port, 10,000 above, may be an outgoing connection's.
            let port = Port::reserve()?;
            let mut options = options
                .clone()
                .line("cluster-enabled yes")
                .line(format!("cluster-port {}", port.number()))
                .default_line(format!("cluster-node-timeout {NODE_TIMEOUT_MS}"))
                .line("repl-diskless-sync-delay 0");
            if let Some(bus) = &mut bus {
                let gate = bus.add_gate(port.address())?;
                options = options.line(format!("cluster-announce-bus-port {gate}"));
            }
            let node = Redis::start(options).await?;
            if let Some(bus) = &bus {
                bus.knows(node.cli(&["CLUSTER", "MYID"]).await?);
            }
            nodes.push(node);
            ports.push(port);
        }
        let cluster = Self { nodes, masters, ports, bus, certificates };
        cluster.join().await?;
        Ok(cluster)
    }

    async fn join(&self) -> Result<()> {
        for (index, node) in self.nodes.iter().enumerate() {
            // Two masters with one epoch would have to settle which of them is right.
            expect_ok(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]).await?;
            if index < self.masters {
                let first = index * SLOTS / self.masters;
                let last = (index + 1) * SLOTS / self.masters - 1;
                let range = [first.to_string(), last.to_string()];
                expect_ok(node, &["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]).await?;
            }
            let bus = self.bus.as_ref().map_or(self.ports[0].number(), |bus| bus.port(0));
            let (port, bus) = (self.nodes[0].peer_address().port().to_string(), bus.to_string());
            if index > 0 {
                expect_ok(node, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await?;
            }
        }
        let all = format!("cluster_known_nodes:{}", self.nodes.len());
        self.wait_info(&[&all]).await?;
        for (index, node) in self.nodes.iter().enumerate().skip(self.masters) {
            let master = &self.nodes[index % self.masters];
            let id = master.cli(&["CLUSTER", "MYID"]).await?;
            expect_ok(node, &["CLUSTER", "REPLICATE", &id]).await?;
        }
        self.wait_whole().await?;
        let replicas = self.nodes.len() / self.masters - 1;
        for master in &self.nodes[..self.masters] {
            crate::redis::sentinel::wait_online(master, replicas).await?;
        }
        Ok(())
    }

    /// Waits until every running node sees all slots served.
    ///
    /// # Errors
    ///
    /// [`KitError::TimedOut`].
    pub async fn wait_whole(&self) -> Result<()> {
        self.wait_info(&["cluster_state:ok", "cluster_slots_ok:16384"]).await
    }

    async fn wait_info(&self, wanted: &[&str]) -> Result<()> {
        until("the cluster to come together", READY_WITHIN, || async {
            for node in self.nodes.iter().filter(|node| node.process().pid().is_ok()) {
                let info = node.cli(&["CLUSTER", "INFO"]).await?;
                if !wanted.iter().all(|line| info.lines().any(|have| have.trim_end() == *line)) {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await
    }

    /// Cuts these nodes off from the others, but not from clients or from their replicas, until it
    /// is called with none. Returns how many links of the bus were ended.
    ///
    /// # Errors
    ///
    /// [`KitError::TimedOut`], or [`KitError::Unexpected`] for a cluster whose bus has no gates.
    pub async fn divide(&self, apart: &[usize]) -> Result<u64> {
        self.gates()?.divide(BTreeSet::from_iter(apart.iter().copied())).await
    }

    /// The state of the links of the bus.
    ///
    /// # Errors
    ///
    /// As [`divide`](Self::divide).
    pub fn links(&self) -> Result<Links> {
        Ok(self.gates()?.links())
    }

    fn gates(&self) -> Result<&Bus> {
        let missing = || KitError::Unexpected("the cluster was not started divisible".to_owned());
        self.bus.as_ref().ok_or_else(missing)
    }

    /// Where clients connect.
    pub fn endpoints(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.address()).collect()
    }

    /// The certificates for clients, if the nodes have TLS. All show the same.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref().map(|(_, files)| files)
    }

    /// The nodes, the first masters first; replica `i` follows master `i % masters` at the start.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// A node, to kill or restart it.
    pub fn node_mut(&mut self, index: usize) -> &mut Redis {
        &mut self.nodes[index]
    }

    /// The slot of a key, as the cluster sees it.
    ///
    /// # Errors
    ///
    /// As [`Redis::cli`].
    pub async fn slot_of(&self, key: &str) -> Result<u16> {
        let answer = self.nodes[0].cli(&["CLUSTER", "KEYSLOT", key]).await?;
        answer.parse().map_err(|_| KitError::Unexpected(format!("KEYSLOT answered {answer:?}")))
    }

    /// The index of the node that serves a slot, by the account of node `asked`.
    ///
    /// # Errors
    ///
    /// [`KitError::Unexpected`] if nobody does.
    pub async fn owner_of(&self, slot: u16, asked: usize) -> Result<usize> {
        let table = self.nodes[asked].cli(&["CLUSTER", "NODES"]).await?;
        let serves = |line: &&str| line.split_whitespace().skip(8).any(|range| within(range, slot));
        let line = table.lines().find(serves);
        let address = line.and_then(|line| line.split_whitespace().nth(1));
        // `127.0.0.1:20001@20002`, in newer versions with a host name behind a comma.
        let port = address.and_then(|text| text.split(['@', ',']).next()?.rsplit(':').next());
        let index = port.and_then(|port| {
            self.nodes.iter().position(|node| node.address().port().to_string() == port)
        });
        index.ok_or_else(|| KitError::Unexpected(format!("no owner of slot {slot} in:\n{table}")))
    }

    /// Moves a slot with its keys to the master `to`, and tells all nodes.
    ///
    /// # Errors
    ///
    /// As [`Redis::cli`], or [`KitError::Unexpected`] where a step is refused.
    pub async fn move_slot(&self, slot: u16, to: usize) -> Result<()> {
        let from = self.owner_of(slot, to).await?;
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        let slot = slot.to_string();
        let from_id = source.cli(&["CLUSTER", "MYID"]).await?;
        let to_id = target.cli(&["CLUSTER", "MYID"]).await?;
        expect_ok(target, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).await?;
        expect_ok(source, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).await?;
        loop {
            let keys = source.cli(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"]).await?;
            let keys: Vec<&str> = keys.lines().filter(|key| !key.is_empty()).collect();
            if keys.is_empty() {
                break;
            }
            let port = target.peer_address().port().to_string();
            let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            command.extend(keys);
            expect_ok(source, &command).await?;
        }
        // The target first: a client that the source sends on must not be sent back.
        expect_ok(target, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await?;
        expect_ok(source, &["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await?;
        for node in self.nodes[..self.masters].iter().filter(|node| node.process().pid().is_ok()) {
            node.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await?;
        }
        Ok(())
    }
}

async fn expect_ok(node: &Redis, command: &[&str]) -> Result<()> {
    let answer = node.cli(command).await?;
    if answer == "OK" {
        return Ok(());
    }
    Err(KitError::Unexpected(format!("{} answered {answer:?}", command.join(" "))))
}

/// Whether `0-5460` or `7` contains the slot; `[7->-…]`, a slot on the move, does not.
fn within(range: &str, slot: u16) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    matches!((first.parse::<u16>(), last.parse::<u16>()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
}
