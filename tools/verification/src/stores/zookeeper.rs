//! ZooKeeper with one server or with three, and its faults.

use std::net::SocketAddr;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use lock_core::LockName;

use super::made;
use crate::proof::{Fault, FaultInjector, StartedStore};
use conformance_tests::SetUpError;
use servers::{Data, Proxy, Server as _, ZooKeeper, ZooKeeperOptions};

pub(super) async fn start(fault: Fault, members: usize) -> Result<StartedStore, SetUpError> {
    let options = ZooKeeperOptions::new();
    let zookeeper = match members {
        1 => ZooKeeper::single(options).await?,
        _ => ZooKeeper::three(options).await?,
    };
    let proxies = try_join_all(zookeeper.endpoints().into_iter().map(Proxy::start)).await?;
    let url = |at: Vec<SocketAddr>| {
        let hosts: Vec<_> = at.iter().map(SocketAddr::to_string).collect();
        format!("zookeeper://{}?tick=200ms&longest_lease=2s", hosts.join(","))
    };
    let (direct, proxied) =
        (url(zookeeper.endpoints()), url(proxies.iter().map(Proxy::address).collect()));
    made(&direct).await?;
    if fault == Fault::Restored {
        zookeeper.save_data()?;
    }
    Ok(StartedStore {
        proxies: Some((proxied, proxies)),
        injector: Some(Box::new(Members { zookeeper, away: Vec::new() })),
        ..StartedStore::of_clients(direct, ())
    })
}

struct Members {
    zookeeper: ZooKeeper,
    /// Members that are killed or stopped.
    away: Vec<usize>,
}

impl Members {
    fn kill(&mut self, member: usize) -> Result<(), SetUpError> {
        self.away.push(member);
        Ok(self.zookeeper.member_mut(member).kill()?)
    }

    fn pause(&mut self, member: usize) -> Result<(), SetUpError> {
        self.away.push(member);
        Ok(self.zookeeper.members()[member].pause()?)
    }

    async fn follower(&self) -> Result<usize, SetUpError> {
        Ok((self.zookeeper.leader().await? + 1) % self.zookeeper.members().len())
    }
}

#[async_trait]
impl FaultInjector for Members {
    async fn inject(&mut self, fault: Fault, name: &LockName) -> Result<String, SetUpError> {
        let all = self.zookeeper.members().len();
        match fault {
            Fault::Restored => {
                self.zookeeper.restore_data().await?;
                Ok(format!("all {all} servers started with a copy of their data"))
            }
            Fault::FailedOver => {
                let leader = self.zookeeper.leader().await?;
                self.kill(leader)?;
                let next = self.zookeeper.leader().await?;
                Ok(format!("member {leader}, the leader, is dead, and member {next} leads"))
            }
            Fault::MemberKilled => {
                let follower = self.follower().await?;
                self.kill(follower)?;
                Ok(format!("member {follower}, a follower, is dead"))
            }
            Fault::MemberPaused => {
                let follower = self.follower().await?;
                self.pause(follower)?;
                Ok(format!("member {follower}, a follower, was stopped"))
            }
            Fault::QuorumLost => {
                self.kill(0)?;
                self.kill(1)?;
                Ok("two of three are dead".to_owned())
            }
            Fault::ServerPaused => {
                (0..all).try_for_each(|member| self.pause(member))?;
                Ok(format!("all {all} servers were stopped"))
            }
            Fault::ServerRestarted => {
                self.zookeeper.crash().await?;
                Ok(format!("all {all} servers were killed and started again"))
            }
            _ => self.zookeeper.member_mut(0).inject(fault, name).await,
        }
    }

    async fn end_fault(&mut self, fault: Fault) -> Result<String, SetUpError> {
        let away = std::mem::take(&mut self.away);
        match fault {
            Fault::MemberPaused | Fault::ServerPaused => {
                for member in away {
                    self.zookeeper.members()[member].resume()?;
                }
                Ok("they were resumed".to_owned())
            }
            Fault::FailedOver | Fault::MemberKilled | Fault::QuorumLost => {
                for member in away {
                    self.zookeeper.member_mut(member).restart(Data::Keep).await?;
                }
                self.zookeeper.wait_healthy().await?;
                Ok("all are back".to_owned())
            }
            _ => self.zookeeper.member_mut(0).end_fault(fault).await,
        }
    }
}
