//! The simulated network, and the store behind it: the memory backend.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, MutexGuard},
    time::Duration,
};

use futures_util::future::{Either, FutureExt as _, select};
use lock_core::{
    Error, ErrorKind, Instant, LastRun, LockName, Memory, Mutex, OwnerId, Record, Request,
    StoreTime,
};
use tokio::sync::oneshot;

use super::{
    env::SimEnv,
    plan::{Mutant, Plan},
    world::{NET, Process, World},
};
use conformance_tests::history::{Acquisition, What};

/// How long a planted standstill of the store lasts: longer than the lease of a job.
const STANDSTILL: Duration = Duration::from_secs(15);

/// How long a planted delay of a request lasts: longer than all jobs of a night.
const DELAY: Duration = Duration::from_secs(3_600);

/// How long a client waits for the answer to a call.
const PATIENCE: Duration = Duration::from_secs(1);

/// What all links of a world share: the store, and what it has seen.
#[derive(Debug)]
pub struct Net {
    pub(super) world: World,
    pub(super) plan: Plan,
    pub(super) memory: Memory,
    pub(super) clock: SimEnv,
    state: Mutex<NetState>,
}

/// The state of the network and the store.
#[derive(Debug, Default)]
pub(super) struct NetState {
    /// No more faults happen.
    pub(super) calm: bool,
    /// The store carries out nothing until then.
    pub(super) store_stopped_until: u64,
    /// The store grants nothing until then.
    pub(super) quarantined_until: u64,
    /// Owners that were abandoned.
    tombstones: BTreeSet<OwnerId>,
    /// Every owner that has sent a request.
    pub(super) owners: BTreeMap<OwnerId, Owner>,
    /// Calls in flight, including late requests.
    pub(super) calls: usize,
    /// The violations, in words.
    pub(super) findings: Vec<String>,
    /// Processes whose client has been closed.
    pub(super) closed: BTreeSet<Process>,
    /// The acquisition of each process that waits for a name, in runs that are checked for
    /// fairness.
    pub(super) asking: BTreeMap<(Process, LockName), Acquisition>,
    /// For mutants: a token that goes round.
    pub(super) counter: u64,
    pub(super) records: Records,
    /// What happens to a process at a step of one of its calls.
    pub(super) planted: BTreeMap<Process, Plant>,
    /// What has happened so.
    pub(super) happened: BTreeSet<(&'static str, Step, Planted)>,
}

/// The state of all records. The simulation uses one name.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The writes that the store still has; the last one is the record.
    pub(super) writes: Vec<Record>,
    /// Older writes may be lost.
    pub(super) since: StoreTime,
    /// All successful runs that were ever recorded, with those that were lost.
    pub(super) done: Vec<LastRun>,
    /// How many of them were lost.
    pub(super) lost: usize,
    /// A crash follows the next record of a successful run, within this time.
    pub(super) crash_after_done: Option<Duration>,
}

/// A fault that is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plant {
    pub(super) what: Planted,
    pub(super) call: &'static str,
    pub(super) step: Step,
    /// How many such calls come before.
    pub(super) before: u64,
}

/// A step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The process sends the request.
    Sent,
    /// The request is at the store.
    Arrived,
    /// The store has carried it out, and has not answered.
    CarriedOut,
}

/// A fault at a step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Planted {
    /// The process dies.
    Death,
    /// The store carries out nothing for longer than a lease.
    Standstill,
    /// The request arrives, and the store carries it out much later.
    Delay,
}

/// The state of an owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) process: Process,
    lease: Duration,
    /// Since when the client tries in vain to abandon or release it.
    cleaning: Option<u64>,
    /// The store answered a clean-up with a permanent error.
    refused: bool,
    /// A release keeps its lock until then.
    kept_until: u64,
}

impl Owner {
    /// Whether the contract allows that the store still has a lock of this owner.
    pub(super) fn excused(&self, now: u64, dead: bool) -> bool {
        let tried_for =
            |begin: u64| now.saturating_sub(begin) >= self.lease.as_nanos() as u64 * 9 / 10;
        let in_vain = self.cleaning.is_some_and(tried_for);
        dead || self.refused || in_vain || now < self.kept_until
    }

    /// Whether the client has tried a clean-up without success.
    pub(super) fn given_up(&self) -> bool {
        self.refused || self.cleaning.is_some()
    }
}

/// The connection of one process to the store.
#[derive(Clone, Debug)]
pub struct Link {
    pub(super) net: Arc<Net>,
    pub(super) process: Process,
    pub(super) env: SimEnv,
}

/// What will happen to a call.
#[derive(Debug)]
struct Fate {
    refused: Option<ErrorKind>,
    out: Duration,
    back: Duration,
    lost_out: bool,
    lost_back: bool,
    /// The client notices a lost message at once, as after a reset, and not when the time limit
    /// ends.
    reset: bool,
    twice: bool,
}

impl Net {
    /// A network with an empty store.
    #[must_use]
    pub fn new(world: &World, plan: &Plan) -> Arc<Self> {
        let clock = SimEnv::of_world(world);
        let memory = Memory::with_env(Arc::new(clock.clone()));
        Arc::new(Self {
            world: world.clone(),
            plan: plan.clone(),
            memory,
            clock,
            state: Mutex::default(),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, NetState> {
        self.state.lock()
    }

    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.plan.mutant == Some(mutant)
    }

    pub(super) fn find(&self, what: String) {
        self.world.log(format_args!("FOUND {what}"));
        self.state().findings.push(what);
    }

    /// Records that the store has a queue entry for what the process waits for.
    pub(super) fn queued(&self, process: Process, name: &LockName) {
        let asking = self.state().asking.remove(&(process, name.clone()));
        if let Some(asking) = asking {
            asking.record(What::Queued);
        }
    }

    fn fate(&self) -> Fate {
        let (world, plan) = (&self.world, &self.plan);
        let calm = self.state().calm;
        let odds = |per_mille: u64| !calm && world.chance(per_mille);
        let way = || {
            let (least, most) = if odds(plan.slow) { (50, 3_000) } else { (0, 3) };
            world.span(Duration::from_millis(least), Duration::from_millis(most))
        };
        let refused = if odds(plan.permanent) {
            let kinds = [ErrorKind::Auth, ErrorKind::Config];
            Some(kinds[world.roll(2) as usize])
        } else {
            odds(plan.refused).then_some(ErrorKind::Unavailable)
        };
        Fate {
            refused,
            out: way(),
            back: way(),
            lost_out: odds(plan.lost_requests),
            lost_back: odds(plan.lost_replies),
            reset: world.chance(500),
            twice: odds(plan.twice),
        }
    }

    /// Waits while the store is stopped.
    async fn awake(&self) {
        loop {
            let until = self.state().store_stopped_until;
            if self.world.now() >= until {
                return;
            }
            self.world.sleep_until(until).await;
        }
    }
}

impl Link {
    /// The connection of `process`, whose clock is `env`.
    #[must_use]
    pub fn new(net: &Arc<Net>, process: Process, env: SimEnv) -> Self {
        Self { net: Arc::clone(net), process, env }
    }

    /// Makes a call: the store carries out the request (perhaps late, twice or never), and answers
    /// (perhaps never). The argument of `step` says whether the client still waits for the answer.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        what: &'static str,
        step: impl Fn(&Self, bool) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (net, world) = (&self.net, &self.net.world);
        let fate = net.fate();
        if self.reach(what, Step::Sent) == Some(Planted::Death) {
            // The task is dropped.
            std::future::pending::<()>().await;
        }
        let fail = |kind, why: &str| Err(Error::new(kind, why).at("sim", what));
        if let Some(kind) = fate.refused {
            world.sleep(fate.back).await;
            return fail(kind, "refused");
        }
        let (answer, reply) = oneshot::channel();
        let reset = fate.reset;
        let not_sent = fate.lost_out && reset;
        net.state().calls += 1;
        let link = self.clone();
        world.spawn(
            NET,
            Box::pin(async move {
                let counted = Counted(Arc::clone(&link.net));
                let world = link.net.world.clone();
                world.sleep(fate.out).await;
                let mut result = None;
                if !fate.lost_out {
                    if link.reach(what, Step::Arrived) == Some(Planted::Delay) {
                        world.sleep(DELAY).await;
                    }
                    link.net.awake().await;
                    result = Some(step(&link, !answer.is_closed()));
                    link.reach(what, Step::CarriedOut);
                    if fate.twice {
                        drop(step(&link, !answer.is_closed()));
                    }
                }
                drop(counted);
                world.sleep(fate.back).await;
                match result.filter(|_| !fate.lost_back) {
                    Some(result) => drop(answer.send(result)),
                    None if !reset => world.sleep(2 * PATIENCE).await,
                    None => {}
                }
            }),
        );
        let patience = world.sleep(PATIENCE);
        match select(reply, patience).await {
            Either::Left((Ok(result), _)) => result,
            Either::Left((Err(_), _)) if not_sent => fail(ErrorKind::Unavailable, "not sent"),
            Either::Left((Err(_), _)) => fail(ErrorKind::OutcomeUnknown, "connection lost"),
            Either::Right(_) => fail(ErrorKind::Timeout, "no answer"),
        }
    }

    /// Lets what is planted happen, if this is the step for it, and returns it.
    fn reach(&self, call: &'static str, step: Step) -> Option<Planted> {
        let standstill = self.net.world.now() + STANDSTILL.as_nanos() as u64;
        let planted = {
            let mut state = self.net.state();
            let here = |plant: &&mut Plant| (plant.call, plant.step) == (call, step);
            let plant = state.planted.get_mut(&self.process).filter(here)?;
            if let Some(before) = plant.before.checked_sub(1) {
                plant.before = before;
                return None;
            }
            let planted = plant.what;
            state.planted.remove(&self.process);
            state.happened.insert((call, step, planted));
            if planted == Planted::Standstill {
                state.store_stopped_until = standstill;
            }
            planted
        };
        self.net.world.log(format_args!("{planted:?} of {} at {call} {step:?}", self.process));
        if planted == Planted::Death {
            self.net.world.kill(self.process);
        }
        Some(planted)
    }

    /// Records an attempt. A late request of an abandoned owner is no mistake of the client.
    pub(super) fn note(&self, request: &Request, awaited: bool) {
        self.owner(request.owner, request.lease, |_| ());
        let abandoned = self.net.state().tombstones.contains(&request.owner);
        if abandoned && awaited {
            self.net.find(format!("the client uses the abandoned owner {} again", request.owner));
        }
    }

    pub(super) fn tombstone(&self, owner: OwnerId) {
        self.net.state().tombstones.insert(owner);
    }

    fn owner(&self, owner: OwnerId, lease: Duration, note: impl FnOnce(&mut Owner)) {
        let fresh =
            Owner { process: self.process, lease, cleaning: None, refused: false, kept_until: 0 };
        note(self.net.state().owners.entry(owner).or_insert(fresh));
    }

    /// Records that a clean-up or release begins.
    pub(super) fn cleaning(&self, owner: OwnerId, lease: Duration) {
        let now = self.net.world.now();
        self.owner(owner, lease, |owner| {
            owner.cleaning.get_or_insert(now);
        });
    }

    /// Records the answer to a clean-up or release.
    pub(super) fn cleaned<T>(
        &self,
        owner: OwnerId,
        keep: Option<Duration>,
        answer: &Result<T, Error>,
    ) {
        let now = self.net.world.now();
        self.owner(owner, Duration::ZERO, |owner| match answer {
            Ok(_) => {
                owner.cleaning = None;
                let keep = keep.unwrap_or_default().as_nanos() as u64;
                owner.kept_until = owner.kept_until.max(now + keep);
            }
            Err(error) => owner.refused |= !error.is_retryable(),
        });
    }

    pub(super) fn local_now(&self) -> Instant {
        lock_core::Env::now(&self.env)
    }
}

/// A call in flight.
struct Counted(Arc<Net>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.state().calls -= 1;
    }
}

/// The result of a step of the memory backend, which never waits.
pub(super) fn at_once<T>(step: impl Future<Output = T>) -> T {
    match step.now_or_never() {
        Some(result) => result,
        None => unreachable!("the memory backend answers at once"),
    }
}
