//! How long it takes after a holder is lost: it stops renewing, its process is killed, or its
//! network is cut. All stores are measured at the same time, since the measurement mostly waits for
//! leases.

use std::{
    path::PathBuf,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use leasehold::ClientOptions;
use lock_core::{Attempt, Env as _, Error, LockName, OwnerId, OwnerLabel, Request, SystemEnv};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use super::cut::CutStore;
use crate::{
    measurement::Measure,
    sample::{Sample, Times},
    store::Subject,
};

/// The lease of the lost holders, unless the store's shortest lease is longer.
const LEASE: Duration = Duration::from_secs(1);

/// A command that has the action `hold` of `leasehold`. It holds a lock in a process of its own,
/// which is killed.
#[derive(Clone, Debug)]
pub struct Holder {
    program: PathBuf,
}

impl Holder {
    /// The path of the command.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }
}

/// The measurements of lost holders.
pub(crate) struct Ends<'a> {
    pub(crate) holder: Option<&'a Holder>,
}

/// The result of one measurement: a sample, or why there is none.
pub(crate) type Made = (Measure, Result<Sample, String>);

impl Ends<'_> {
    /// How long a round takes, if nothing fails.
    pub(crate) const TAKES: Duration = Duration::from_millis(2_500);

    pub(crate) async fn measure(&self, subject: &Arc<Subject>) -> Vec<Made> {
        let (death, killed, cut) =
            tokio::join!(death(subject), self.killed(subject), cut_off(subject));
        vec![(Measure::Death, death), (Measure::Killed, killed), (Measure::CutOff, cut)]
    }

    /// Kills a process that holds a lock, while a client of this process waits for it.
    async fn killed(&self, subject: &Arc<Subject>) -> Result<Sample, String> {
        if subject.store.url.scheme() == "memory" {
            return Err("its holders are tasks of one process".to_owned());
        }
        let holder = self.holder.ok_or("no program was named that holds a lock to be killed")?;
        let (name, lease) = (subject.name("of the killed"), lease(subject));
        let mut child = Command::new(&holder.program)
            // Not as an argument: any user of the machine can read arguments.
            .env("LEASEHOLD_STORE", subject.store.url.expose())
            .args(["hold", "--lease", &format!("{}ms", lease.as_millis()), name.as_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("no process can be started: {error}"))?;
        let stdout = child.stdout.take().ok_or("the process has no stdout")?;
        let line = BufReader::new(stdout).lines().next_line().await;
        line.ok().flatten().ok_or("the process that was to hold a lock got none")?;
        let waiting = wait_for(subject, &name);
        let kill = async {
            // By then the waiter usually waits. If not, the result is the same.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let killed = Instant::now();
            child.kill().await.map_err(|error| format!("the process is not killed: {error}"))?;
            Ok::<_, String>(killed)
        };
        let (held, killed) = tokio::join!(waiting, kill);
        once(held?.saturating_duration_since(killed?))
    }
}

fn lease(subject: &Subject) -> Duration {
    LEASE.max(subject.backend().guarantees().shortest_lease)
}

fn once(time: Duration) -> Result<Sample, String> {
    let mut times = Times::new();
    times.add(time);
    times.sample(Duration::from_secs(1)).ok_or_else(|| "there is no time".to_owned())
}

/// Acquires the lock by the second client; returns when it had the lock.
async fn wait_for(subject: &Subject, name: &LockName) -> Result<Instant, String> {
    let waiter = &subject.clients[1 % subject.clients.len()];
    let wait = lease(subject) * 3 + LEASE * 10;
    let guard = waiter.lock(name).wait(wait).acquire().await.map_err(|e| e.to_string())?;
    let held = Instant::now();
    guard.release().await.map_err(|error| error.to_string())?;
    Ok(held)
}

/// One holder never renews, and another client waits.
async fn death(subject: &Arc<Subject>) -> Result<Sample, String> {
    let (name, lease) = (subject.name("of the dead"), lease(subject));
    let owner = OwnerId::from_bits(SystemEnv.random());
    let label = OwnerLabel::of_this_process();
    let request = Request::new(name.clone(), owner, label, lease, SystemEnv.now());
    let attempt = subject.backend().try_acquire(&request).await;
    let Attempt::Granted(grant) = attempt.map_err(|error| error.to_string())? else {
        return Err(format!("{name} is taken, although nobody else knows it"));
    };
    let began = Instant::now();
    let before = SystemEnv.now().since(grant.from);
    let held = wait_for(subject, &name).await?;
    let since = before + held.saturating_duration_since(began);
    once(since.saturating_sub(grant.lease).max(Duration::from_nanos(1)))
}

/// Cuts the network of a holder, and waits until its guard reports the loss.
async fn cut_off(subject: &Arc<Subject>) -> Result<Sample, String> {
    let store = CutStore::to(&subject.store.url).await?;
    let name = subject.name("of the cut off");
    let failed = |error: Error| error.to_string();
    let options = ClientOptions::default();
    let client = leasehold::connect_with(&store.url, options).await.map_err(failed)?;
    let guard = client.lock(&name).lease(lease(subject)).acquire().await.map_err(failed)?;
    store.cut().await?;
    let cut = Instant::now();
    let limit = lease(subject) * 3 + LEASE * 10;
    let told = tokio::time::timeout(limit, guard.lost()).await;
    let took = cut.elapsed();
    store.mend().await?;
    drop(guard);
    client.close().await;
    // Waits until the lock is free, whether or not the release reached the store.
    wait_for(subject, &name).await?;
    told.map_err(|_| format!("the guard did not report its loss within {limit:?}"))?;
    once(took)
}
