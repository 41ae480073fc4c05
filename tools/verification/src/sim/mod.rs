//! Deterministic simulation: the real client runs in a world whose randomness comes from one seed.
//!
//! Several [`LockClient`]s, each a process with its own clock, share a store (the memory backend)
//! over a network that delays, loses, repeats and reorders messages. Processes are paused, killed
//! and closed, and futures are dropped at any poll. At the end the
//! [history](conformance_tests::history) is checked, and nothing may be left: no lock, no queue
//! entry, no task, no timer.
//!
//! The same seed gives the same event log, byte for byte.

mod chaos;
mod composed;
mod env;
mod link;
mod load;
mod month;
mod net;
mod plan;
mod records;
mod world;

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use lock_core::{Backend as _, ClientOptions, LockClient, LockName, OwnerId, OwnerLabel};

pub use self::{
    env::SimEnv,
    load::{Register, Worker},
    month::{CALLS, Month, month},
    net::{Link, Net, Planted, Step},
    plan::{MONTH_MUTANTS, MUTANTS, Mutant, Plan},
    world::{End, NET, Process, Sleep, World},
};
use self::{load::Registers, net::at_once};
use conformance_tests::history::{Recorder, Rule, check};

/// Every lock of a run: plain locks, the door and the slots of a semaphore, an election.
const NAMES: [&str; 6] = ["a", "b", "pool", "pool/0", "pool/1", "chief"];

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The violations, in words.
    pub findings: Vec<String>,
    /// All events in their order.
    pub log: String,
    /// The number of guards.
    pub grants: usize,
}

/// Runs one seed. With `mutant`, one part is broken, and the run must find it.
#[must_use]
pub fn run(seed: u64, mutant: Option<Mutant>) -> Report {
    let world = World::new(seed);
    let plan = Plan::draw(&world, mutant);
    world.log(format_args!("seed {seed}: {plan:?}"));
    let net = Net::new(&world, &plan);
    let (mut recorders, links) = start(&world, &net);
    let ours = |process| process != NET;
    let calls = |net: &Net| net.state().calls;
    let limit = world.now() + Duration::from_secs(150).as_nanos() as u64;
    let done = |world: &World| world.tasks(ours) == 0 && calls(&net) == 0 && net.state().calm;
    let end = world.run_until(limit, done);
    if end != End::Done {
        let left = world.tasks(ours);
        net.find(format!("{end:?} with {left} tasks left and {} calls in flight", calls(&net)));
    }
    left_behind(&net);
    if end == End::Done && links.iter().any(|link| link.strong_count() > 0) {
        net.find("a client without users or tasks was not freed".into());
    }
    let mut history = conformance_tests::history::History::default();
    for recorder in recorders.drain(..) {
        history = history.join(recorder.history());
    }
    let mut rules = vec![
        Rule::WellFormed,
        Rule::Exclusion,
        Rule::Permits,
        Rule::Tokens,
        Rule::Resurrection,
        Rule::LostUpdate,
    ];
    if plan.calm {
        rules.push(Rule::Fairness);
    }
    let broken = check(&history, &rules);
    let mut findings = std::mem::take(&mut net.state().findings);
    findings.extend(broken.iter().map(|violation| violation.with_events(&history)));
    let mut log = world.take_log();
    log.push_str("history:\n");
    for event in history.events() {
        log.push_str(&format!("{event}\n"));
    }
    let granted = |event: &&conformance_tests::history::Event| {
        matches!(event.what, conformance_tests::history::What::Acquired { .. })
    };
    let grants = history.events().iter().filter(granted).count();
    // The tasks of a stuck run and the world refer to each other; the kill breaks that circle.
    for process in 0..=plan.processes {
        world.kill(process);
    }
    Report { seed, findings, log, grants }
}

/// Starts the processes; returns their recorders and their links.
fn start(world: &World, net: &Arc<Net>) -> (Vec<Recorder>, Vec<Weak<Link>>) {
    let plan = &net.plan;
    let names: Vec<LockName> = ["a", "b"]
        .iter()
        .take(plan.names as usize)
        .filter_map(|name| LockName::new(name).ok())
        .collect();
    let every: Vec<LockName> = NAMES.iter().filter_map(|name| LockName::new(name).ok()).collect();
    let registers: Registers =
        Arc::new(every.iter().map(|name| (name.clone(), Register::default())).collect());
    let true_time = Arc::new(SimEnv::of_world(world));
    let mut recorders = vec![Recorder::with_env(NET, true_time.clone())];
    let (mut clients, mut links) = (Vec::new(), Vec::new());
    for process in 1..=plan.processes {
        let env = SimEnv::of_process(world, process, net.is(Mutant::ClockStops));
        let link = Arc::new(Link::new(net, process, env.clone()));
        links.push(Arc::downgrade(&link));
        let label = OwnerLabel::new(format!("process {process}"));
        let mut options = ClientOptions::default();
        options.label = label.unwrap_or(options.label);
        // Shorter or longer than a call's time limit. With a short one a client withdraws the queue
        // entries that the mutant `OldPushes` needs.
        let short = world.chance(500) && !net.is(Mutant::OldPushes);
        options.call_timeout = Duration::from_millis(if short { 300 } else { 2_000 });
        let Ok(client) = LockClient::with_env(link, Arc::new(env.clone()), options) else {
            unreachable!("these options are valid")
        };
        let recorder = Recorder::with_env(process, true_time.clone());
        for _ in 0..plan.tasks {
            let worker = Worker {
                net: Arc::clone(net),
                world: world.clone(),
                process,
                env: env.clone(),
                client: client.clone(),
                recorder: recorder.clone(),
                names: names.clone(),
                registers: Arc::clone(&registers),
            };
            world.spawn(process, Box::pin(worker.run()));
        }
        recorders.push(recorder);
        clients.push(client);
    }
    let chaos = chaos::run(world.clone(), Arc::clone(net), recorders[0].clone(), every, clients);
    world.spawn(NET, Box::pin(chaos));
    (recorders, links)
}

/// Finds locks and queue entries that are left at the end (S6).
fn left_behind(net: &Net) {
    let now = net.world.now();
    for name in NAMES {
        let Ok(name) = LockName::new(name) else { continue };
        let Ok(Some(state)) = at_once(net.memory.inspect(&name)) else { continue };
        let owners = net.state().owners.clone();
        if let Some(holder) = &state.holder {
            // The store does not name the readers: any of them may be the holder.
            let shared = holder.owner == OwnerId::READERS;
            let excused = owners.iter().any(|(id, owner)| {
                (shared || *id == holder.owner)
                    && owner.excused(now, net.world.is_dead(owner.process))
            });
            if !excused {
                net.find(format!("{name} was left behind: {state:?}"));
            }
        }
        let given_up =
            owners.values().any(|owner| owner.given_up() || net.world.is_dead(owner.process));
        if state.waiting.unwrap_or(0) > 0 && !given_up {
            net.find(format!("a queue entry was left behind: {state:?}"));
        }
    }
}
