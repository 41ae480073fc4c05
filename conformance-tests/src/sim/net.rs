//! The network and the store: the memory backend behind every fault that a real one has.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, MutexGuard},
    time::Duration,
};

use futures_util::future::{Either, FutureExt as _, select};
use lock_core::{Error, ErrorKind, Instant, LockName, Memory, Mutex, OwnerId, Request};
use tokio::sync::oneshot;

use super::{
    env::SimEnv,
    plan::{Mutant, Plan},
    world::{NET, Process, World},
};
use crate::history::{Acquisition, What};

/// How long a backend waits for its store.
const PATIENCE: Duration = Duration::from_secs(1);

/// What all links of a world share: the store, and what was seen there.
#[derive(Debug)]
pub struct Net {
    pub(super) world: World,
    pub(super) plan: Plan,
    pub(super) memory: Memory,
    pub(super) clock: SimEnv,
    state: Mutex<NetState>,
}

/// What the network knows.
#[derive(Debug, Default)]
pub(super) struct NetState {
    /// No faults any more.
    pub(super) calm: bool,
    /// Nothing is carried out until then.
    pub(super) store_stopped_until: u64,
    /// Nothing is granted until then.
    pub(super) quarantined_until: u64,
    /// Owners that were abandoned.
    tombstones: BTreeSet<OwnerId>,
    /// Every owner that ever asked.
    pub(super) owners: BTreeMap<OwnerId, Owner>,
    /// Calls under way, late requests too.
    pub(super) calls: usize,
    /// What must not happen, and did.
    pub(super) findings: Vec<String>,
    /// Processes whose client has been closed.
    pub(super) closed: BTreeSet<Process>,
    /// Which acquisition of a process waits for a name, in runs that are checked for fairness.
    pub(super) asking: BTreeMap<(Process, LockName), Acquisition>,
    /// Mutants only: a token that goes round.
    pub(super) counter: u64,
}

/// What became of an owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) process: Process,
    lease: Duration,
    /// Since when a clean-up or release of it is tried in vain.
    cleaning: Option<u64>,
    /// A clean-up was answered with an error that repeating cannot mend.
    refused: bool,
    /// Its release asked the store to keep it.
    kept_until: u64,
}

impl Owner {
    /// Whether the contract lets the store still have it.
    pub(super) fn excused(&self, now: u64, dead: bool) -> bool {
        let tried_for =
            |begin: u64| now.saturating_sub(begin) >= self.lease.as_nanos() as u64 * 9 / 10;
        let in_vain = self.cleaning.is_some_and(tried_for);
        dead || self.refused || in_vain || now < self.kept_until
    }

    /// Whether a clean-up was tried and never answered.
    pub(super) fn given_up(&self) -> bool {
        self.refused || self.cleaning.is_some()
    }
}

/// One process's way to the store.
#[derive(Clone, Debug)]
pub struct Link {
    pub(super) net: Arc<Net>,
    pub(super) process: Process,
    pub(super) env: SimEnv,
}

/// What will become of a call.
#[derive(Debug)]
struct Fate {
    refused: Option<ErrorKind>,
    out: Duration,
    back: Duration,
    lost_out: bool,
    lost_back: bool,
    /// A loss is noticed at once, not when patience ends.
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

    /// Notes that the store has a place for what the process asks for.
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

    /// Waits while the store stands still.
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
    /// The way of `process`, whose clock is `env`.
    #[must_use]
    pub fn new(net: &Arc<Net>, process: Process, env: SimEnv) -> Self {
        Self { net: Arc::clone(net), process, env }
    }

    /// Makes a call: out, carried out (perhaps late, twice or never), and back (perhaps never).
    /// What `step` is told is whether somebody still waits for the answer.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        what: &'static str,
        step: impl Fn(&Self, bool) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (net, world) = (&self.net, &self.net.world);
        let fate = net.fate();
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
                    link.net.awake().await;
                    result = Some(step(&link, !answer.is_closed()));
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

    /// Notes who asks. A late request of an abandoned owner is the store's affair.
    pub(super) fn note(&self, request: &Request, awaited: bool) {
        self.owner(request.owner, request.lease, |_| ());
        let abandoned = self.net.state().tombstones.contains(&request.owner);
        if abandoned && awaited {
            self.net.find(format!("owner {} was abandoned and asks again", request.owner));
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

    /// Notes that a clean-up or release begins.
    pub(super) fn cleaning(&self, owner: OwnerId, lease: Duration) {
        let now = self.net.world.now();
        self.owner(owner, lease, |owner| {
            owner.cleaning.get_or_insert(now);
        });
    }

    /// Notes how a clean-up or release was answered.
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

/// A call under way.
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
