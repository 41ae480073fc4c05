//! etcd with one member or with three, and its faults.

use std::{net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use futures_util::future::try_join_all;
use leasehold::etcd::etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};
use lock_core::LockName;

use super::{faults, fences, made, record_counters};
use crate::proof::{Fault, FaultInjector, StartedStore};
use conformance_tests::SetUpError;
use servers::{Data, Etcd, EtcdOptions, Proxy, Server as _};

/// After so many requests etcd's own numbers show a restore.
const USED: usize = 500;
const AT_ONCE: usize = 50;
/// The database of a member whose disk is to be full.
const QUOTA: u64 = 3_000_000;

pub(super) async fn start(fault: Fault, members: usize) -> Result<StartedStore, SetUpError> {
    let mut options = EtcdOptions::new();
    if fault == Fault::FullDisk {
        options = options.quota_bytes(QUOTA);
    }
    let etcd = match members {
        1 => Etcd::single(options).await?,
        _ => Etcd::three(options).await?,
    };
    let proxies = try_join_all(etcd.endpoints().into_iter().map(Proxy::start)).await?;
    let url = |at: Vec<SocketAddr>| {
        let hosts: Vec<_> = at.iter().map(SocketAddr::to_string).collect();
        format!("etcd://{}?longest_lease=2s", hosts.join(","))
    };
    let (direct, proxied) =
        (url(etcd.endpoints()), url(proxies.iter().map(Proxy::address).collect()));
    if fault == Fault::Restored {
        used(etcd.endpoints()[0]).await?;
    }
    made(&direct).await?;
    let folder = tempfile::tempdir()?;
    if fault == Fault::Restored {
        etcd.save_snapshot(&folder.path().join("snapshot")).await?;
    }
    let endpoints: Vec<_> = etcd.endpoints().iter().map(|at| format!("http://{at}")).collect();
    let disk = faults::Disk::default();
    Ok(StartedStore {
        proxies: Some((proxied, proxies)),
        fence: Some(Arc::new(fences::Etcd::connect(&endpoints).await?)),
        counter: Some(Arc::new(record_counters::Etcd { endpoints })),
        injector: Some(Box::new(Members { etcd, folder, disk, away: Vec::new() })),
        ..StartedStore::of_clients(direct, ())
    })
}

/// Sends requests that enter the log and write nothing. In a cluster that was just made, a restore
/// may not show, so that an operator would have to report it (`restores-are-reported`).
async fn used(member: SocketAddr) -> Result<(), SetUpError> {
    let client = Client::connect([member.to_string()], None).await?;
    let never = Compare::version("any", CompareOp::Less, 0);
    let txn = Txn::new().when([never]).and_then([TxnOp::put("any", "", None)]);
    // In groups: all at once could cost a slow leader its election.
    for _ in 0..USED / AT_ONCE {
        let sent = (0..AT_ONCE).map(|_| {
            let (mut kv, txn) = (client.kv_client(), txn.clone());
            async move { kv.txn(txn).await }
        });
        try_join_all(sent).await?;
    }
    Ok(())
}

struct Members {
    etcd: Etcd,
    folder: tempfile::TempDir,
    disk: faults::Disk,
    /// Members that are killed or stopped.
    away: Vec<usize>,
}

impl Members {
    fn count(&self) -> usize {
        self.etcd.members().len()
    }

    fn kill(&mut self, member: usize) -> Result<(), SetUpError> {
        self.away.push(member);
        Ok(self.etcd.member_mut(member).kill()?)
    }

    async fn keys_of(&self, name: &LockName) -> Result<Vec<String>, SetUpError> {
        let all = self.etcd.ctl(&["get", "--prefix", "--keys-only", "leasehold/"]).await?;
        let theirs = all.lines().filter(|line| line.contains(name.as_str()));
        Ok(theirs.map(str::to_owned).collect())
    }

    async fn revision(&self) -> Result<u64, SetUpError> {
        let text = self.etcd.ctl(&["get", "k", "-w", "json"]).await?;
        let (_, rest) = text.split_once("\"revision\":").ok_or("etcdctl names no revision")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Ok(digits.parse()?)
    }

    /// Writes until etcd reports that its quota is used up.
    async fn fill(&self) -> Result<String, SetUpError> {
        let value = "x".repeat(100_000);
        for number in 0..QUOTA / 50_000 {
            if self.etcd.ctl(&["put", &format!("fill/{number}"), &value]).await.is_err() {
                let alarms = self.etcd.ctl(&["alarm", "list"]).await?;
                let full = alarms.contains("NOSPACE");
                return if full { Ok("alarm NOSPACE".to_owned()) } else { Err(alarms.into()) };
            }
        }
        Err("etcd took more than its quota".into())
    }

    async fn make_room(&self) -> Result<String, SetUpError> {
        let alarms = self.etcd.ctl(&["alarm", "list"]).await?;
        if !alarms.contains("NOSPACE") {
            return Err("the alarm was gone before room was made".into());
        }
        self.etcd.ctl(&["del", "--prefix", "fill/"]).await?;
        self.etcd.ctl(&["compact", &self.revision().await?.to_string()]).await?;
        self.etcd.ctl(&["defrag"]).await?;
        self.etcd.ctl(&["alarm", "disarm"]).await?;
        Ok("room was made".to_owned())
    }
}

#[async_trait]
impl FaultInjector for Members {
    async fn inject(&mut self, fault: Fault, name: &LockName) -> Result<String, SetUpError> {
        match fault {
            Fault::Restored => {
                let before = self.keys_of(name).await?;
                self.etcd.restore_snapshot(&self.folder.path().join("snapshot")).await?;
                let after = self.keys_of(name).await?;
                if before.is_empty() || after.iter().any(|key| before.contains(key)) {
                    return Err(format!("keys {before:?} became {after:?}").into());
                }
                Ok(format!("{} keys of the lock are not in the copy", before.len()))
            }
            Fault::SlowDisk => {
                for member in self.etcd.members() {
                    self.disk.slow(member.process()).await?;
                }
                Ok("each flush of each member takes longer".to_owned())
            }
            Fault::FullDisk => self.fill().await,
            Fault::FailedOver => {
                let leader = self.etcd.leader().await?;
                self.kill(leader)?;
                let next = self.etcd.leader().await?;
                Ok(format!("member {leader}, the leader, is dead, and member {next} leads"))
            }
            Fault::MemberKilled => {
                let follower = (self.etcd.leader().await? + 1) % self.count();
                self.kill(follower)?;
                Ok(format!("member {follower}, a follower, is dead"))
            }
            Fault::MemberPaused => {
                // The assumption `no-leader-comes-back` excludes a pause of the leader.
                let follower = (self.etcd.leader().await? + 1) % self.count();
                self.away.push(follower);
                self.etcd.members()[follower].pause()?;
                Ok(format!("member {follower}, a follower, was stopped"))
            }
            Fault::QuorumLost => {
                self.kill(0)?;
                self.kill(1)?;
                Ok("two of three are dead".to_owned())
            }
            Fault::ServerPaused => {
                for member in self.etcd.members() {
                    member.pause()?;
                }
                self.away = (0..self.count()).collect();
                Ok(format!("all {} members were stopped", self.count()))
            }
            Fault::ServerRestarted => {
                for member in 0..self.count() {
                    self.etcd.member_mut(member).kill()?;
                }
                for member in 0..self.count() {
                    self.etcd.member_mut(member).restart(Data::Keep).await?;
                }
                self.etcd.wait_healthy().await?;
                Ok(format!("all {} members were killed and started again", self.count()))
            }
            _ => self.etcd.member_mut(0).inject(fault, name).await,
        }
    }

    async fn end_fault(&mut self, fault: Fault) -> Result<String, SetUpError> {
        let away = std::mem::take(&mut self.away);
        match fault {
            Fault::SlowDisk => self.disk.felt(),
            Fault::FullDisk => self.make_room().await,
            Fault::MemberPaused | Fault::ServerPaused => {
                for member in away {
                    self.etcd.members()[member].resume()?;
                }
                Ok("they were resumed".to_owned())
            }
            Fault::MemberKilled | Fault::QuorumLost => {
                for member in away {
                    self.etcd.member_mut(member).restart(Data::Keep).await?;
                }
                self.etcd.wait_healthy().await?;
                Ok("all are back".to_owned())
            }
            _ => self.etcd.member_mut(0).end_fault(fault).await,
        }
    }
}
