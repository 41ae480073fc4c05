//! The course of a fault: it is injected while the victim holds a lock, and ends when its effects
//! were seen.

use std::time::Duration;

use futures_util::future::try_join_all;
use lock_core::{Env as _, FencingToken, Guarantees, Instant, LockName, SystemEnv};

use crate::proof::clients::process::{Client, Order};
use crate::proof::clients::record::Record;
use crate::proof::plan::fault::Fault;
use crate::proof::plan::profile::Profile;
use crate::proof::plan::system_under_test::{Guarantee, StartedStore};
use crate::proof::trial::findings::Finding;
use conformance_tests::{SetUpError, history::Op};
use servers::{Counters, Mode, Proxy};

/// The limit of each wait: a library that never reports a loss must fail the run, not hang it.
pub(super) const PATIENCE: Duration = Duration::from_secs(45);

/// A fault while it happens, and its results.
pub(crate) struct FaultRun<'a> {
    record: &'a Record,
    name: &'a LockName,
    lease: Duration,
    promised: &'a Guarantees,
    tolerance: Duration,
    /// Whether the victim hears nothing of the store until another client has its lock.
    pub(crate) silenced: bool,
    pub(crate) pause: Option<(Instant, Instant)>,
    /// The begin and the end of the fault.
    pub(crate) fault: Option<(Instant, Instant)>,
    pub(crate) freed_after: Option<Duration>,
    pub(crate) findings: Vec<Finding>,
    /// How the fault is known to have happened.
    pub(crate) happened: String,
}

impl<'a> FaultRun<'a> {
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
            silenced: false,
            pause,
            fault,
            freed_after,
            findings,
            happened,
        }
    }

    /// Waits until the victim's guard has reported its loss.
    async fn loss(&mut self, victim: Op) {
        if self.record.until(PATIENCE, |seen| seen.loss(victim)).await.is_none() {
            let what = format!("the victim's guard did not report its loss within {PATIENCE:?}");
            let finding = Finding::new(Guarantee::LossReported, what);
            self.findings.push(Finding { ops: vec![victim], ..finding });
        }
    }

    /// Waits until a later holder of the victim's lock has written; returns the time of the write.
    async fn successor(&mut self, above: FencingToken, since: Instant) -> Option<Instant> {
        let name = self.name.as_str();
        let later = self.record.until(PATIENCE, |seen| seen.successor(name, above, since)).await;
        if later.is_none() {
            let what = format!("no other client held {name:?} within {PATIENCE:?} after the fault");
            self.findings.push(Finding::new(Guarantee::Served, what));
        }
        later
    }

    /// The same after the victim is gone: the lock must be free within the lease and the times that
    /// the store promises.
    async fn freed(&mut self, above: FencingToken, since: Instant) {
        let Some(at) = self.successor(above, since).await else { return };
        let promised = self.promised;
        let bound = self.lease + promised.lease_step + promised.expiry_slack;
        let bound = bound + promised.longest_poll + promised.dead_waiter_delay + self.tolerance;
        let took = at.since(since);
        self.freed_after = Some(took);
        if took > bound {
            let what =
                format!("the lock was free only after {took:?}; the store promises {bound:?}");
            self.findings.push(Finding::new(Guarantee::Served, what));
        }
    }
}

/// Makes the fault happen, and waits for its effects. The victim is the first client.
///
/// # Errors
/// In words, if the fault did not happen.
pub(crate) async fn run(
    run: &mut FaultRun<'_>,
    fault: Fault,
    started: &mut StartedStore,
    clients: &mut [Client],
) -> Result<(), SetUpError> {
    let count = clients.len();
    let ready = run.record.until(PATIENCE, |seen| (seen.ready == count).then_some(())).await;
    ready.ok_or_else(|| format!("the clients were not connected within {PATIENCE:?}"))?;
    let Some((victim, token)) = run.record.until(PATIENCE, |seen| seen.victim).await else {
        let what = format!("the victim did not get its lock within {PATIENCE:?}");
        run.findings.push(Finding::new(Guarantee::Served, what));
        return Ok(());
    };
    let (began, began_at) = (SystemEnv.now(), tokio::time::Instant::now());
    run.fault = Some((began, began));
    match fault {
        Fault::None => {}
        Fault::ClientKilled => {
            clients[0].kill().await?;
            run.fault = Some((began, SystemEnv.now()));
            run.happened = "the client died by SIGKILL".to_owned();
            run.freed(token, began).await;
            return Ok(());
        }
        Fault::ClientPaused => {
            clients[0].pause().await?;
            let stopped = SystemEnv.now();
            run.happened = "the client was stopped".to_owned();
            run.freed(token, began).await;
            clients[0].resume()?;
            run.pause = Some((stopped, SystemEnv.now()));
            run.loss(victim).await;
        }
        fault if fault.is_in_the_network() => {
            let (_, proxies) = started.proxies.as_ref().ok_or("no proxy")?;
            let before: Vec<_> = proxies.iter().map(Proxy::counters).collect();
            set(proxies, mode(fault, run.lease)).await?;
            run.loss(victim).await;
            run.freed(token, began).await;
            run.happened = happened(fault, proxies, &before).await?;
            set(proxies, Mode::Pass).await?;
        }
        fault => {
            let proxies = started.proxies.as_ref().map(|(_, proxies)| proxies);
            let silencing = proxies.filter(|_| run.silenced);
            if let Some(proxies) = silencing {
                set(proxies, Mode::BlackHole).await?;
            }
            let injector = started.injector.as_mut().ok_or("this store has no server of ours")?;
            run.happened = injector.inject(fault, run.name).await?;
            if let Some(proxies) = silencing {
                let name = run.name.as_str();
                run.record.until(PATIENCE, |seen| seen.successor(name, token, began)).await;
                set(proxies, Mode::Pass).await?;
            } else if fault == Fault::ServerPaused {
                run.loss(victim).await;
            } else {
                // If the store kept the lock, the victim may renew it, and then there is no loss.
                let beyond = run.promised.longest_lease + Duration::from_millis(500);
                run.record.until(beyond, |seen| seen.loss(victim)).await;
                if lasts(fault) {
                    // The fault lasts until it affects the other clients, too.
                    tokio::time::sleep_until(began_at + beyond).await;
                }
            }
            if lasts(fault) {
                let healed = injector.end_fault(fault).await?;
                if !healed.is_empty() {
                    run.happened = format!("{}; {healed}", run.happened);
                }
            }
        }
    }
    let over = SystemEnv.now();
    run.fault = Some((began, over));
    clients[0].order(Order::EndHold).await?;
    run.successor(token, over).await;
    Ok(())
}

/// Whether a fault of the servers lasts until [`FaultInjector::end_fault`]. (A clock is not set
/// back; the call only checks what the step did to the server.)
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

/// Waits until one of the proxies has carried out the fault; returns what it did. A client may use
/// only one of several servers.
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
        _ => "bytes of answers were delayed at the end",
    };
    let each = proxies.iter().zip(before).map(|(proxy, before)| {
        let felt = proxy.until("its fault to happen", PATIENCE, move |now| done(now, before) > 0);
        Box::pin(async move { felt.await.map(|now| done(&now, before)) })
    });
    let (first, _) = futures_util::future::select_ok(each).await?;
    Ok(format!("{first} {what}"))
}
