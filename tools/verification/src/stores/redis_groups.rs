//! Several Redis: with sentinels, as a cluster, as a quorum.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::{try_join_all, try_join_all as all_of};
use lock_core::LockName;

use super::{
    faults, made, record_counters,
    redis::{OneRedis, options_for, seconds},
};
use crate::proof::{Fault, FaultInjector, StartedStore};
use conformance_tests::SetUpError;
use servers::{Clock, Data, Proxy, Redis, RedisCluster, RedisOptions, Sentinels, Server as _};

/// On a busy machine half a second is not enough: sentinels then replace the new master at once.
const DOWN_AFTER: Duration = Duration::from_millis(1_500);

/// A proxy before each of these servers and guides: a client that asks a guide or a server behind
/// them where another server is, is told its proxy.
async fn guided(servers: &[SocketAddr], guides: &[SocketAddr]) -> Result<Vec<Proxy>, SetUpError> {
    let all = servers.iter().chain(guides);
    let proxies = try_join_all(all.map(|at| Proxy::start(*at))).await?;
    let mut rules = Vec::new();
    for (server, proxy) in servers.iter().zip(&proxies) {
        let (server, proxy) = (server.port(), proxy.address().port());
        // As a sentinel tells it, and when it has changed; in a table of slots; in a refusal.
        rules.extend([
            (format!("$5\r\n{server}\r\n"), format!("$5\r\n{proxy}\r\n")),
            (format!("127.0.0.1 {server}"), format!("127.0.0.1 {proxy}")),
            (format!(":{server}\r\n"), format!(":{proxy}\r\n")),
            (format!("127.0.0.1:{server}"), format!("127.0.0.1:{proxy}")),
        ]);
    }
    let rules: Vec<_> = rules.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    for proxy in &proxies {
        proxy.alter_answers(&rules)?;
    }
    Ok(proxies)
}

/// A master, two replicas, and three sentinels, with the settings under which a failover is safe.
pub(super) async fn sentinels(fault: Fault) -> Result<StartedStore, SetUpError> {
    let clock = faults::clock_for(fault).await?;
    let options = options_for(fault, clock.as_ref())
        .line("min-replicas-to-write 2")
        .line("min-replicas-max-lag 1");
    let group = Sentinels::start_patient(2, options, DOWN_AFTER).await?;
    let url = |at: &[SocketAddr]| {
        let hosts: Vec<_> = at.iter().map(SocketAddr::to_string).collect();
        format!("redis+sentinel://{}/{}?longest_lease=2s", hosts.join(","), Sentinels::MASTER)
    };
    let servers: Vec<_> = group.servers().iter().map(|server| server.address()).collect();
    let proxies = guided(&servers, &group.endpoints()).await?;
    let guides: Vec<_> = proxies[servers.len()..].iter().map(Proxy::address).collect();
    let direct = url(&group.endpoints());
    made(&direct).await?;
    Ok(StartedStore {
        proxies: Some((url(&guides), proxies)),
        injector: Some(Box::new(Watched { group, clock, away: None })),
        ..StartedStore::of_clients(direct, ())
    })
}

struct Watched {
    group: Sentinels,
    /// Of the servers, not of the sentinels.
    clock: Option<Clock>,
    away: Option<usize>,
}

#[async_trait]
impl FaultInjector for Watched {
    async fn inject(&mut self, fault: Fault, _: &LockName) -> Result<String, SetUpError> {
        let master = self.group.master().await?;
        let replica = (master + 1) % self.group.servers().len();
        match fault {
            Fault::FailedOver => {
                self.group.server_mut(master).kill()?;
                let next = self.group.failed_over(master).await?;
                // It comes back as a replica: with one of two the new master takes no writes.
                self.group.server_mut(master).restart(Data::Keep).await?;
                Ok(format!("server {next} is the master in place of server {master}"))
            }
            Fault::MemberPaused => {
                self.away = Some(master);
                self.group.servers()[master].pause()?;
                let next = self.group.failed_over(master).await?;
                Ok(format!("server {master}, the master, stood still, and {next} took over"))
            }
            Fault::MemberKilled => {
                self.group.sentinel(0).kill()?;
                Ok("one of three sentinels is dead".to_owned())
            }
            Fault::QuorumLost => {
                self.away = Some(replica);
                self.group.server_mut(replica).kill()?;
                Ok("one of the two replicas that a write needs is dead".to_owned())
            }
            Fault::ServerPaused => {
                for server in self.group.servers() {
                    server.pause()?;
                }
                Ok("the master and both replicas stood still".to_owned())
            }
            Fault::ServerRestarted | Fault::DataLost => {
                let lost = fault == Fault::DataLost;
                let (count, data) =
                    (self.group.servers().len(), if lost { Data::Lose } else { Data::Keep });
                for server in 0..count {
                    self.group.server_mut(server).kill()?;
                }
                for server in 0..count {
                    self.group.server_mut(server).restart(data).await?;
                }
                let with = if lost { ", with nothing" } else { "" };
                Ok(format!("all {count} servers died, and others serve{with}"))
            }
            Fault::ClockForward | Fault::ClockBack => {
                let server = &self.group.servers()[master];
                faults::step(self.clock.as_ref(), fault, || seconds(server)).await
            }
            other => Err(format!("{other} is not for sentinels").into()),
        }
    }

    async fn end_fault(&mut self, fault: Fault) -> Result<String, SetUpError> {
        match (fault, self.away.take()) {
            (Fault::MemberPaused, Some(old)) => self.group.servers()[old].resume()?,
            (Fault::QuorumLost, Some(replica)) => {
                self.group.server_mut(replica).restart(Data::Keep).await?;
            }
            (Fault::MemberKilled, _) => self.group.sentinel(0).start_again()?,
            (Fault::ServerPaused, _) => {
                for server in self.group.servers() {
                    server.resume()?;
                }
            }
            (Fault::ClockForward | Fault::ClockBack, _) => return Ok(String::new()),
            _ => return Err(format!("{fault} does not end").into()),
        }
        Ok("it is back".to_owned())
    }
}

/// Three masters with a replica each.
pub(super) async fn cluster(fault: Fault) -> Result<StartedStore, SetUpError> {
    let clock = faults::clock_for(fault).await?;
    let mut options = RedisOptions::new().line("cluster-node-timeout 1500");
    if let Some(clock) = &clock {
        options = options.clock(clock);
    }
    let cluster = RedisCluster::start(3, 1, options).await?;
    let url = |at: &[SocketAddr]| {
        let hosts: Vec<_> = at.iter().map(SocketAddr::to_string).collect();
        format!("redis+cluster://{}?longest_lease=2s", hosts.join(","))
    };
    let proxies = guided(&cluster.endpoints(), &[]).await?;
    let proxied: Vec<_> = proxies.iter().map(Proxy::address).collect();
    let direct = url(&cluster.endpoints());
    made(&direct).await?;
    Ok(StartedStore {
        proxies: Some((url(&proxied), proxies)),
        injector: Some(Box::new(Slots { cluster, clock, away: Vec::new() })),
        ..StartedStore::of_clients(direct, ())
    })
}

struct Slots {
    cluster: RedisCluster,
    clock: Option<Clock>,
    away: Vec<usize>,
}

impl Slots {
    /// The master that has the lock.
    async fn master_of(&self, name: &LockName) -> Result<usize, SetUpError> {
        let pattern = format!("*{}*", name.as_str().replace(' ', "?"));
        for at in 0..3 {
            let found = self.cluster.nodes()[at].cli(&["KEYS", &pattern]).await?;
            if !found.trim().is_empty() {
                return Ok(at);
            }
        }
        Err(format!("no master has {name}").into())
    }

    async fn taken_over(&self, old: usize) -> Result<(), SetUpError> {
        let asked = (old + 1) % 3;
        let limit = Duration::from_secs(60);
        Ok(servers::wait::until("a replica to take over", limit, || async {
            let role = self.cluster.nodes()[old + 3].info("role").await?;
            let table = self.cluster.nodes()[asked].cli(&["CLUSTER", "INFO"]).await?;
            Ok((role == "master" && table.contains("cluster_state:ok")).then_some(()))
        })
        .await?)
    }
}

#[async_trait]
impl FaultInjector for Slots {
    async fn inject(&mut self, fault: Fault, name: &LockName) -> Result<String, SetUpError> {
        let master = self.master_of(name).await?;
        match fault {
            Fault::FailedOver => {
                self.cluster.node_mut(master).kill()?;
                self.taken_over(master).await?;
                Ok(format!("the replica of master {master}, which had the lock, took over"))
            }
            Fault::MemberPaused => {
                self.away = vec![master];
                self.cluster.nodes()[master].pause()?;
                self.taken_over(master).await?;
                Ok(format!("master {master}, which had the lock, stood still, and was replaced"))
            }
            Fault::MemberKilled => {
                self.away = vec![master + 3];
                self.cluster.node_mut(master + 3).kill()?;
                Ok(format!("the replica of master {master}, which has the lock, is dead"))
            }
            Fault::QuorumLost => {
                self.away = vec![master, (master + 1) % 3];
                for at in self.away.clone() {
                    self.cluster.node_mut(at).kill()?;
                }
                Ok("two of three masters are dead, one of them that with the lock".to_owned())
            }
            Fault::ServerPaused => {
                self.away = (0..self.cluster.nodes().len()).collect();
                for node in self.cluster.nodes() {
                    node.pause()?;
                }
                Ok(format!("all {} nodes stood still", self.away.len()))
            }
            Fault::ServerRestarted => {
                let count = self.cluster.nodes().len();
                for at in 0..count {
                    self.cluster.node_mut(at).kill()?;
                }
                for at in 0..count {
                    self.cluster.node_mut(at).restart(Data::Keep).await?;
                }
                self.cluster.wait_whole().await?;
                Ok(format!("all {count} nodes died, and others serve"))
            }
            Fault::ClockForward | Fault::ClockBack => {
                let node = &self.cluster.nodes()[master];
                faults::step(self.clock.as_ref(), fault, || seconds(node)).await
            }
            other => Err(format!("{other} is not for a cluster").into()),
        }
    }

    async fn end_fault(&mut self, fault: Fault) -> Result<String, SetUpError> {
        for at in std::mem::take(&mut self.away) {
            if matches!(fault, Fault::MemberPaused | Fault::ServerPaused) {
                self.cluster.nodes()[at].resume()?;
            } else {
                self.cluster.node_mut(at).restart(Data::Keep).await?;
            }
        }
        self.cluster.wait_whole().await?;
        Ok("all are back".to_owned())
    }
}

/// Independent nodes.
pub(super) async fn redlock(fault: Fault, count: usize) -> Result<StartedStore, SetUpError> {
    let start = || async move {
        let clock = faults::clock_for(fault).await?;
        let server = Redis::start(options_for(fault, clock.as_ref())).await?;
        Ok::<_, SetUpError>(OneRedis { server, clock, disk: faults::Disk::default(), kept: 0 })
    };
    let mut nodes = all_of((0..count).map(|_| start())).await?;
    let addresses: Vec<_> = nodes.iter().map(|node| node.server.address()).collect();
    let proxies = try_join_all(addresses.iter().map(|at| Proxy::start(*at))).await?;
    let url = |at: Vec<SocketAddr>| {
        let hosts: Vec<_> = at.iter().map(SocketAddr::to_string).collect();
        // Where many processes share a processor, ten milliseconds are too few.
        format!("redlock://{}?longest_lease=2s&node_timeout=100ms", hosts.join(","))
    };
    let direct = url(addresses.clone());
    let proxied = url(proxies.iter().map(Proxy::address).collect());
    made(&direct).await?;
    for node in &mut nodes {
        node.kept = node.server.aof_written()?;
    }
    Ok(StartedStore {
        proxies: Some((proxied, proxies)),
        injector: Some(Box::new(Quorum(nodes))),
        counter: Some(Arc::new(record_counters::Redis { nodes: addresses, per_name: 0 })),
        ..StartedStore::of_clients(direct, ())
    })
}

struct Quorum(Vec<OneRedis>);

impl Quorum {
    /// To how many nodes the fault happens: one more than the quorum does without, so that it is
    /// the store's, or as many as it does without.
    fn hit(&self, fault: Fault) -> usize {
        let spare = self.0.len() / 2;
        match fault {
            Fault::MemberKilled | Fault::MemberPaused | Fault::ClockForward | Fault::ClockBack => {
                spare
            }
            _ => spare + 1,
        }
    }

    /// What one node calls this fault.
    fn of_a_node(fault: Fault) -> Fault {
        match fault {
            Fault::MemberPaused => Fault::ServerPaused,
            other => other,
        }
    }
}

#[async_trait]
impl FaultInjector for Quorum {
    async fn inject(&mut self, fault: Fault, name: &LockName) -> Result<String, SetUpError> {
        let (hit, all) = (self.hit(fault), self.0.len());
        let nodes = self.0.iter_mut().take(hit);
        let each = nodes.map(|node| async move {
            if matches!(fault, Fault::MemberKilled | Fault::QuorumLost) {
                node.server.kill()?;
                return Ok("dead".to_owned());
            }
            node.inject(Self::of_a_node(fault), name).await
        });
        let said = try_join_all(each).await?;
        Ok(format!("{hit} of {all} nodes: {}", said.join("; ")))
    }

    async fn end_fault(&mut self, fault: Fault) -> Result<String, SetUpError> {
        let hit = self.hit(fault);
        let each = self.0.iter_mut().take(hit).map(|node| async move {
            if matches!(fault, Fault::MemberKilled | Fault::QuorumLost) {
                node.server.restart(Data::Keep).await?;
                return Ok("it is back".to_owned());
            }
            node.end_fault(Self::of_a_node(fault)).await
        });
        Ok(try_join_all(each).await?.join("; "))
    }
}
