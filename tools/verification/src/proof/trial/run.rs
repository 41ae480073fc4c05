//! One run: a store, a workload and a fault.

use std::{collections::BTreeSet, time::Duration};

use lock_core::{Backend, Env as _, ErrorKind, FencingToken, Guarantees, LockName, SystemEnv};

use crate::proof::clients::composed;
use crate::proof::clients::process::{Client, ClientSpec, Order, Role};
use crate::proof::clients::record::Record;
use crate::proof::clients::registers::Registers;
use crate::proof::plan::fault::Fault;
use crate::proof::plan::profile::Profile;
use crate::proof::plan::system_under_test::{
    Connect, Guarantee, RecordCount, StartedStore, SystemUnderTest, lease,
};
use crate::proof::trial::fault_run::{self, FaultRun, PATIENCE};
use crate::proof::trial::findings::{Finding, RunData};
use conformance_tests::SetUpError;

/// How long the clients may take to end after the fault is over.
const ENDED_WITHIN: Duration = Duration::from_secs(90);

/// Tries `subject` under `fault` once.
///
/// # Errors
/// In words, if the run could not be made: a server did not start, or the fault did not happen.
pub(crate) async fn run(
    subject: &SystemUnderTest,
    fault: Fault,
    seed: u64,
    profile: &Profile,
    connect: Connect,
) -> Result<RunData, SetUpError> {
    let mut started = (subject.start)(fault).await?;
    let observer = connect(started.url.clone()).await?;
    let promised = observer.guarantees();
    let record = Record::new();
    // The store's own fence is tried only if the store itself is healthy.
    let fence =
        started.fence.take().filter(|_| fault.spares_the_store() || fault.is_in_the_network());
    let has_own_fence = fence.is_some();
    let registers = Registers::start(record.clone(), fence).await?;
    let counter = started.counter.take().filter(|_| fault == Fault::None);
    let before = match &counter {
        Some(counter) => counter.count().await?,
        None => RecordCount::default(),
    };
    // The names must differ from those of every other run, also in a store of the user's.
    let unique = SystemEnv.random() as u32;
    let names: Vec<LockName> = (0..profile.names)
        .map(|number| LockName::new(format!("proof {seed} {unique:08x} {number}")))
        .collect::<Result<_, _>>()?;
    let has_records = match observer.read_record(&names[0]).await {
        Err(error) => error.kind() != ErrorKind::Unsupported,
        Ok(_) => true,
    };
    let silenced = subject.silences_the_victim(fault);
    let proxied = silenced || fault.is_in_the_network();
    let spec = ClientSpec {
        process: 0,
        url: if proxied { url_of_proxies(&started, fault)? } else { started.url.clone() },
        registers: registers.address,
        seed,
        names: names.clone(),
        lease: match fault {
            // It takes seconds to shut a server down, to restore the copy and to start it. Until
            // then a silenced victim must believe.
            Fault::Restored => promised.longest_lease,
            _ if silenced => promised.longest_lease,
            _ => lease(&promised),
        },
        wait: profile.wait,
        tasks: profile.tasks,
        operations: profile.operations,
        rest: profile.rest,
        careless: fault != Fault::None,
        role: Role::Victim,
    };
    let mut victim = spec.clone();
    if fault == Fault::ClientPaused {
        // The victim only holds. If it were paused in a write to SQLite, it would block everybody,
        // as the docs of that store say.
        victim.tasks = 1;
    }
    let mut clients = vec![Client::start(&victim, &record).await?];
    if matches!(fault, Fault::None | Fault::ClientPaused) {
        // The victim gets the lock itself, not by a handoff, after which the store may keep it for
        // longer than the requested lease.
        record.until(PATIENCE, |seen| seen.victim).await;
    }
    for process in 1..profile.processes {
        let is_heir = process == 1 || fault == Fault::None;
        let role = if is_heir { Role::Heir } else { Role::Other };
        let url = started.heir.as_ref().filter(|_| process == 1).unwrap_or(&started.url).clone();
        let other = ClientSpec { process, role, url, lease: lease(&promised), ..spec.clone() };
        clients.push(Client::start(&other, &record).await?);
        if fault == Fault::None {
            // The heirs come one after the other, and none gives up. So chance does not decide
            // whether one is passed over, or whether two hold the lock.
            record.until(PATIENCE, |seen| seen.came.contains(&process).then_some(())).await;
        }
    }

    let mut fault_run = FaultRun::new(&record, &names[0], spec.lease, &promised, profile);
    fault_run.silenced = silenced;
    let ended = fault_run::run(&mut fault_run, fault, &mut started, &mut clients).await;
    let FaultRun { pause, fault: around, freed_after, mut findings, happened, .. } = fault_run;
    ended?;
    let around = around.map(|(began, over)| (names[0].clone(), began, over));
    if fault == Fault::ClientKilled {
        drop(clients.remove(0));
    }
    for client in &mut clients {
        client.order(Order::Finish).await?;
    }
    for client in clients {
        match client.ended(ENDED_WITHIN).await? {
            Some(status) if status.success() => {}
            Some(status) => return Err(format!("a client ended with {status}").into()),
            None => {
                let what = format!("a client had not ended {ENDED_WITHIN:?} after the fault");
                findings.push(Finding::new(Guarantee::Served, what));
            }
        }
    }
    for (process, tasks) in record.closed().into_iter().filter(|(_, tasks)| *tasks > 0) {
        let what = format!("process {process} had {tasks} tasks after it had closed its client");
        findings.push(Finding::new(Guarantee::NothingLeft, what));
    }
    let every = [names.clone(), composed::names(&names[0])].concat();
    findings.extend(left_behind(&*observer, &every, fault, &promised, profile).await);
    if let Some(counter) = &counter {
        let (after, allowed) = (counter.count().await?, counter.allowed(every.len()));
        if after.is_more_than(before, allowed) {
            let what = format!("{before} became {after}; {allowed} may be added");
            findings.push(Finding::new(Guarantee::NothingLeft, what));
        }
    }
    observer.close().await;
    let (history, wait) = (record.history(), profile.wait);
    Ok(RunData {
        seed,
        fault,
        history,
        promised,
        wait,
        pause,
        around,
        freed_after,
        findings,
        happened,
        has_own_fence,
        has_records,
        tolerance: profile.tolerance,
        crowded: profile.crowded,
    })
}

/// The URL for a victim whose connections the fault disturbs.
fn url_of_proxies(started: &StartedStore, fault: Fault) -> Result<String, SetUpError> {
    let proxied = started.proxies.as_ref().map(|(url, _)| url.clone());
    proxied.ok_or_else(|| format!("{fault} needs a proxy, and this store has none").into())
}

/// Finds locks of the run that are still held after all clients have closed.
async fn left_behind(
    store: &dyn Backend,
    names: &[LockName],
    fault: Fault,
    promised: &Guarantees,
    profile: &Profile,
) -> Option<Finding> {
    let since = SystemEnv.now();
    // A client releases what it holds when it closes. If a client was killed or cut off, its leases
    // must end first.
    let bound = match fault {
        Fault::None | Fault::ClientPaused => Duration::ZERO,
        _ => {
            promised.longest_lease + promised.lease_step + promised.expiry_slack + profile.tolerance
        }
    };
    loop {
        let asked = SystemEnv.now();
        let left = match held(store, names).await {
            Ok(left) if left.is_empty() => return None,
            Ok(left) => format!("{left:?}"),
            Err(error) => error.to_string(),
        };
        if asked.since(since) > bound {
            let what = format!(
                "still held {:?} after the last client had closed: {left}",
                asked.since(since)
            );
            return Some(Finding::new(Guarantee::NothingLeft, what));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn held(
    store: &dyn Backend,
    names: &[LockName],
) -> Result<BTreeSet<(LockName, FencingToken)>, lock_core::Error> {
    let (mut held, mut from) = (BTreeSet::new(), None);
    loop {
        let page = store.list(from).await?;
        let ours = page.locks.into_iter().filter(|lock| names.contains(&lock.name));
        held.extend(ours.map(|lock| (lock.name, lock.token)));
        from = page.next;
        if from.is_none() {
            return Ok(held);
        }
    }
}
