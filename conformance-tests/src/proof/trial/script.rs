//! The course of each fault: planted while the victim holds a lock, and over when it has shown.

use std::time::Duration;

use futures_util::future::try_join_all;
use lock_core::{Env as _, FencingToken, Guarantees, Instant, LockName, SystemEnv};

use crate::proof::clients::part::{Client, Order};
use crate::proof::clients::record::Record;
use crate::proof::plan::fault::Fault;
use crate::proof::plan::profile::Profile;
use crate::proof::plan::system_under_test::{Guarantee, Stage};
use crate::proof::trial::findings::Finding;
use crate::{
    SetUpError,
    history::Op,
    kit::{Counters, Mode, Proxy},
};

/// What is waited for in any case, so that a library that never tells fails the run and not hangs it.
const PATIENCE: Duration = Duration::from_secs(45);

/// A fault in course.
pub(crate) struct Script<'a> {
    record: &'a Record,
    name: &'a LockName,
    lease: Duration,
    promised: &'a Guarantees,
    tolerance: Duration,
    pub(crate) pause: Option<(Instant, Instant)>,
    /// When the fault began, and when it was over.
    pub(crate) fault: Option<(Instant, Instant)>,
    pub(crate) freed_after: Option<Duration>,
    pub(crate) findings: Vec<Finding>,
    /// How the fault is known to have happened.
    pub(crate) happened: String,
}

impl<'a> Script<'a> {
    pub(crate) fn new(
        record: &'a Record,
        name: &'a LockName,
        lease: Duration,
        promised: &'a Guarantees,
        profile: &Profile,
    ) -> Self {
        let (pause, fault, freed_after) = (None, None, None);
        let (findings, happened, tolerance) = (Vec::new(), String::new(), profile.tolerance);
        Self {
            record,
            name,
            lease,
            promised,
            tolerance,
            pause,
            fault,
            freed_after,
            findings,
            happened,
        }
    }

    /// Waits until the victim's loss was told.
    async fn loss(&mut self, victim: Op) {
        if self.record.until(PATIENCE, |seen| seen.loss(victim)).await.is_none() {
            let what = format!("the holder was not told of its loss within {PATIENCE:?}");
            let finding = Finding::new(Guarantee::LossTold, what);
            self.findings.push(Finding { ops: vec![victim], ..finding });
        }
    }

    /// Waits until a later holder of the victim's lock has written; returns when.
    async fn successor(&mut self, above: FencingToken, since: Instant) -> Option<Instant> {
        let name = self.name.as_str();
        let later = self.record.until(PATIENCE, |seen| seen.successor(name, above, since)).await;
        if later.is_none() {
            let what = format!("nobody held {name:?} within {PATIENCE:?} after the fault");
            self.findings.push(Finding::new(Guarantee::Served, what));
        }
        later
    }

    /// The same, where the lock's holder is gone: within its lease and what the store says.
    async fn freed(&mut self, above: FencingToken, since: Instant) {
        let Some(at) = self.successor(above, since).await else { return };
        let promised = self.promised;
        let bound = self.lease + promised.lease_step + promised.expiry_slack;
        let bound = bound + promised.longest_poll + promised.dead_place_delay + self.tolerance;
        let took = at.since(since);
        self.freed_after = Some(took);
        if took > bound {
            let what = format!("the lock was free after {took:?}; promised is {bound:?}");
            self.findings.push(Finding::new(Guarantee::Served, what));
        }
    }
}

/// Plays the fault; the victim's process is the first client.
///
/// # Errors
/// In words, if the fault did not happen.
pub(crate) async fn play(
    script: &mut Script<'_>,
    fault: Fault,
    stage: &mut Stage,
    clients: &mut [Client],
) -> Result<(), SetUpError> {
    let count = clients.len();
    let ready = script.record.until(PATIENCE, |seen| (seen.ready == count).then_some(())).await;
    ready.ok_or_else(|| format!("the clients were not connected within {PATIENCE:?}"))?;
    let Some((victim, token)) = script.record.until(PATIENCE, |seen| seen.victim).await else {
        let what = format!("the first lock was not had within {PATIENCE:?}");
        script.findings.push(Finding::new(Guarantee::Served, what));
        return Ok(());
    };
    let (began, planted) = (SystemEnv.now(), tokio::time::Instant::now());
    script.fault = Some((began, began));
    match fault {
        Fault::None => {}
        Fault::ClientKilled => {
            clients[0].kill().await?;
            script.fault = Some((began, SystemEnv.now()));
            script.happened = "the client ended by SIGKILL".to_owned();
            script.freed(token, began).await;
            return Ok(());
        }
        Fault::ClientPaused => {
            clients[0].pause().await?;
            let stopped = SystemEnv.now();
            script.happened = "the client stood still".to_owned();
            script.freed(token, began).await;
            clients[0].resume()?;
            script.pause = Some((stopped, SystemEnv.now()));
            script.loss(victim).await;
        }
        fault if fault.is_on_the_way() => {
            let (_, proxies) = stage.proxies.as_ref().ok_or("no proxy")?;
            let before: Vec<_> = proxies.iter().map(Proxy::counters).collect();
            set(proxies, mode(fault, script.lease)).await?;
            script.loss(victim).await;
            script.freed(token, began).await;
            script.happened = happened(fault, proxies, &before).await?;
            set(proxies, Mode::Pass).await?;
        }
        fault => {
            let plant = stage.plant.as_mut().ok_or("this store has no server of ours")?;
            script.happened = plant.plant(fault, script.name).await?;
            if fault == Fault::ServerPaused {
                script.loss(victim).await;
            } else {
                // A holder that is not told may go on: what was kept may be renewed.
                let beyond = script.promised.longest_lease + Duration::from_millis(500);
                script.record.until(beyond, |seen| seen.loss(victim)).await;
                if lasts(fault) {
                    // The others are to feel it, too.
                    tokio::time::sleep_until(planted + beyond).await;
                }
            }
            if lasts(fault) {
                let healed = plant.heal(fault).await?;
                if !healed.is_empty() {
                    script.happened = format!("{}; {healed}", script.happened);
                }
            }
        }
    }
    let over = SystemEnv.now();
    script.fault = Some((began, over));
    clients[0].order(Order::GoOn).await?;
    script.successor(token, over).await;
    Ok(())
}

/// Whether a fault of the servers lasts until it is ended. A clock stays where it stepped to; what it did
/// to its server is looked at.
fn lasts(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::ServerPaused
            | Fault::SlowDisk
            | Fault::FullDisk
            | Fault::ClockForward
            | Fault::ClockBack
            | Fault::MemberKilled
            | Fault::MemberPaused
            | Fault::QuorumLost
    )
}

async fn set(proxies: &[Proxy], mode: Mode) -> Result<(), SetUpError> {
    Ok(try_join_all(proxies.iter().map(|proxy| proxy.set(mode))).await.map(drop)?)
}

fn mode(fault: Fault, lease: Duration) -> Mode {
    match fault {
        Fault::ConnectionCut => Mode::Cut,
        Fault::HalfCut => Mode::HalfCut,
        Fault::RequestsLost => Mode::RequestsLost,
        _ => Mode::Delay {
            to_server: Duration::from_millis(50),
            to_client: lease + Duration::from_millis(200),
        },
    }
}

/// Waits until a proxy has done what all were set to; tells what that was. Of several servers a client
/// may use but one.
async fn happened(
    fault: Fault,
    proxies: &[Proxy],
    before: &[Counters],
) -> Result<String, SetUpError> {
    let done = |now: &Counters, before: &Counters| match fault {
        Fault::ConnectionCut => now.cut - before.cut,
        Fault::HalfCut => now.to_client.swallowed - before.to_client.swallowed,
        Fault::RequestsLost => now.to_server.swallowed - before.to_server.swallowed,
        _ => now.to_client.waiting,
    };
    let what = match fault {
        Fault::ConnectionCut => "connections were cut",
        Fault::HalfCut => "bytes of answers were lost",
        Fault::RequestsLost => "bytes of requests were lost",
        _ => "bytes of answers were held up at the end",
    };
    let each = proxies.iter().zip(before).map(|(proxy, before)| {
        let felt = proxy.until("its fault to happen", PATIENCE, move |now| done(now, before) > 0);
        Box::pin(async move { felt.await.map(|now| done(&now, before)) })
    });
    let (first, _) = futures_util::future::select_ok(each).await?;
    Ok(format!("{first} {what}"))
}
