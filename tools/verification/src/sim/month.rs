//! A job that runs once a day, for 30 days: three machines with the same line in their crontabs,
//! whose clocks are five minutes apart. Processes die at any step of any call, jobs fail, and the
//! store restarts at noon.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use lock_core::{
    ClientOptions, Decision, ErrorKind, IfUnknown, LockClient, LockName, OwnerLabel, StoreTime,
};

use super::{
    env::SimEnv,
    net::{Link, Net, Plant, Planted, Step},
    plan::{Mutant, Plan},
    world::{End, NET, Process, World},
};

const DAYS: u64 = 30;
const DAY: Duration = Duration::from_secs(86_400);
const MINUTE: Duration = Duration::from_secs(60);

/// A period less an hour.
const DISTANCE: Duration = Duration::from_secs(23 * 3_600);

/// The calls of a job.
pub const CALLS: [&str; 5] = ["read-record", "acquire", "write-record", "renew", "release"];

/// The result of a month.
#[derive(Debug)]
pub struct Month {
    /// The violations, in words.
    pub findings: Vec<String>,
    /// All events in their order.
    pub log: String,
    /// How many runs succeeded.
    pub done: usize,
    /// How many of their records the store has lost.
    pub lost: usize,
    /// How often it was unknown whether the job had run.
    pub doubts: u32,
    /// How often an attempt was not the first of its round.
    pub repeats: u32,
    /// At which steps of which calls the planted faults happened.
    pub happened: BTreeSet<(&'static str, Step, Planted)>,
}

/// What the machines share.
struct Fleet {
    net: Arc<Net>,
    name: LockName,
    /// Whether the store flushes each write, and so promises to keep records.
    flushes: bool,
    if_unknown: Option<IfUnknown>,
    /// When the job is to start, in each day.
    start: Duration,
    running: AtomicU32,
    doubts: AtomicU32,
    repeats: AtomicU32,
}

/// What happens to a job today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fortune {
    Succeeds,
    Fails,
    /// Something happens at a step of one of its calls.
    Meets(Plant),
    /// Its process dies while the job runs.
    Dies,
    /// The machine is off.
    Off,
}

/// Runs one month. The store keeps all records if it `flushes`; otherwise crashes lose the last.
#[must_use]
pub fn month(seed: u64, flushes: bool, mutant: Option<Mutant>) -> Month {
    let world = World::new(seed);
    let plan = Plan {
        permanent: 0,
        lost_requests: world.roll(30),
        lost_replies: world.roll(30),
        slow: world.roll(30),
        silent_renewals: world.roll(30),
        twice: world.roll(100),
        refused: world.roll(30),
        calm: false,
        ..Plan::draw(&world, mutant)
    };
    let net = Net::new(&world, &plan);
    let Ok(name) = LockName::new("nightly") else { unreachable!("a valid name") };
    // Without a promise some jobs start shortly before noon.
    let start = if flushes { 120 } else { 700 + world.roll(20) as u32 };
    let choices = [Some(IfUnknown::Fail), Some(IfUnknown::Run)];
    let if_unknown = if flushes { None } else { choices[world.roll(2) as usize] };
    world.log(format_args!("seed {seed}, starts {start} minutes after midnight, {if_unknown:?}"));
    let fleet = Arc::new(Fleet {
        net: Arc::clone(&net),
        name,
        flushes,
        if_unknown,
        start: MINUTE * start,
        running: AtomicU32::new(0),
        doubts: AtomicU32::new(0),
        repeats: AtomicU32::new(0),
    });
    world.spawn(NET, Box::pin(Arc::clone(&fleet).days()));
    let limit = world.now() + (DAY * (DAYS as u32 + 1)).as_nanos() as u64;
    let end = world.run_until(limit, |world| world.tasks(|_| true) == 0);
    if end != End::Done {
        net.find(format!("{end:?} with {} tasks left", world.tasks(|_| true)));
    }
    fleet.count_days();
    let mut state = net.state();
    Month {
        findings: std::mem::take(&mut state.findings),
        log: world.take_log(),
        done: state.records.done.iter().map(|run| run.token).collect::<BTreeSet<_>>().len(),
        lost: state.records.lost,
        doubts: fleet.doubts.load(Ordering::Relaxed),
        repeats: fleet.repeats.load(Ordering::Relaxed),
        happened: std::mem::take(&mut state.happened),
    }
}

impl Fleet {
    /// Midnight before this day.
    fn midnight(day: u64) -> u64 {
        day * DAY.as_nanos() as u64
    }

    async fn days(self: Arc<Self>) {
        let world = self.net.world.clone();
        for day in 0..DAYS {
            // At least one machine of three is well.
            let well = world.roll(3);
            // Another machine asks at one o'clock. It runs the job only if a crash has cut that of
            // the last machine short.
            for machine in 0..4 {
                let is_well = machine == well || machine == 3;
                let fortune = if is_well { Fortune::Succeeds } else { self.fortune() };
                let process = 1 + (day * 4 + machine) as Process;
                // Five minutes early, in time, or five minutes late.
                let start = match machine {
                    3 => MINUTE * 60 * 13,
                    _ => self.start + MINUTE * 5 * machine as u32 - MINUTE * 5,
                };
                let at = Self::midnight(day) + start.as_nanos() as u64;
                let fleet = Arc::clone(&self);
                world.log(format_args!("day {day}, machine {machine}: {fortune:?}"));
                world.spawn(
                    NET,
                    Box::pin(async move {
                        fleet.net.world.sleep_until(at).await;
                        fleet.start(process, fortune);
                    }),
                );
            }
            if !self.flushes && world.chance(300) {
                let after = world.span(Duration::ZERO, Duration::from_secs(2));
                self.net.state().records.crash_after_done = Some(after);
            }
            world.sleep_until(Self::midnight(day) + DAY.as_nanos() as u64 / 2).await;
            self.net.crash(&self.name, self.flushes);
            world.sleep_until(Self::midnight(day + 1)).await;
        }
    }

    fn fortune(&self) -> Fortune {
        let world = &self.net.world;
        match world.roll(8) {
            0 => Fortune::Succeeds,
            1 => Fortune::Fails,
            2 => Fortune::Dies,
            3 => Fortune::Off,
            rest => {
                let call = CALLS[world.roll(CALLS.len() as u64) as usize];
                let step = [Step::Sent, Step::Arrived, Step::CarriedOut][world.roll(3) as usize];
                let (what, call, step) = match rest {
                    4 => (Planted::Standstill, call, step),
                    5 => (Planted::Delay, "write-record", Step::Arrived),
                    _ => (Planted::Death, call, step),
                };
                Fortune::Meets(Plant { what, call, step, before: world.roll(2) })
            }
        }
    }

    /// Starts the command on a machine.
    fn start(self: &Arc<Self>, process: Process, fortune: Fortune) {
        if let Fortune::Meets(plant) = fortune {
            self.net.state().planted.insert(process, plant);
        }
        if fortune == Fortune::Off {
            return;
        }
        let world = &self.net.world;
        let env = SimEnv::of_process(world, process, false);
        let link = Arc::new(Link::new(&self.net, process, env.clone()));
        let Ok(label) = OwnerLabel::new(format!("process {process}")) else {
            unreachable!("a valid label")
        };
        let options = ClientOptions::new().with_label(label);
        let options = options.with_call_timeout(Duration::from_secs(2));
        let Ok(client) = LockClient::with_env(link, Arc::new(env), options) else {
            unreachable!("these options are valid")
        };
        world.spawn(process, Box::pin(Arc::clone(self).ask(process, client, fortune)));
    }

    /// What `leasehold run --once-per 24h --wait 30m` does.
    async fn ask(self: Arc<Self>, process: Process, client: LockClient, fortune: Fortune) {
        let mut once = client.lock(&self.name).wait(MINUTE * 30).once_per(DAY);
        if let Some(then) = self.if_unknown {
            once = once.if_unknown(then);
        }
        let asked = self.net.store_time();
        match once.begin().await {
            Ok(Decision::Due(run)) => {
                self.check_due(run.doubt().is_some(), process);
                self.repeats.fetch_add(u32::from(run.attempt() > 1), Ordering::Relaxed);
                let code = match run.guard().while_valid(self.job(process, fortune)).await {
                    Ok(code) => code,
                    Err(_) => return,
                };
                self.net.world.log(format_args!("{process} ends with {code}"));
                if let Err(error) = run.exited(code).await {
                    self.net.world.log(format_args!("{process} is not recorded: {error}"));
                }
            }
            Ok(Decision::NotDue(last)) => {
                let done = self.net.state().records.done.contains(&last);
                if !done || last.round + DISTANCE <= asked {
                    self.net.find(format!("{process} was told that it has run: {last:?}"));
                }
            }
            Ok(Decision::Unknown(unknown)) => {
                self.doubts.fetch_add(1, Ordering::Relaxed);
                self.net.world.log(format_args!("{process}: {}", unknown.why));
                if self.flushes {
                    self.net.find(format!("{process} does not know, and nothing was lost"));
                }
            }
            // The store stood still, or the lock was lost before the run began.
            Err(error) => {
                let kinds = [ErrorKind::Lost, ErrorKind::NotHeld];
                if !error.is_retryable() && !kinds.contains(&error.kind()) {
                    self.net.find(format!("{process} failed without a reason: {error}"));
                }
                self.net.world.log(format_args!("{process}: {error}"));
            }
        }
        client.close().await;
    }

    /// Checks that no run counts, if that was said for certain.
    fn check_due(&self, doubted: bool, process: Process) {
        let now = self.net.store_time();
        let state = self.net.state();
        let counts = state.records.done.iter().find(|run| now < run.round + DISTANCE).cloned();
        drop(state);
        if doubted {
            self.doubts.fetch_add(1, Ordering::Relaxed);
        } else if let Some(run) = counts {
            self.net.find(format!("{process} runs the job, which has already run: {run:?}"));
        }
    }

    /// The job: its exit code.
    async fn job(&self, process: Process, fortune: Fortune) -> u8 {
        let world = &self.net.world;
        let running = Running::begin(self, process);
        world.sleep(world.span(Duration::from_secs(1), MINUTE * 7)).await;
        if fortune == Fortune::Dies {
            world.log(format_args!("{process} dies in the middle"));
            world.kill(process);
            std::future::pending::<()>().await;
        }
        drop(running);
        u8::from(fortune == Fortune::Fails)
    }

    /// Checks the number of successful runs of each day.
    fn count_days(&self) {
        let origin = StoreTime::from_micros(
            self.net.store_time().as_micros() - self.net.world.now() / 1_000,
        );
        let mut done = self.net.state().records.done.clone();
        // A write without an answer is repeated.
        done.dedup_by_key(|run| run.token);
        for day in 0..DAYS {
            let of_day = |run: &&lock_core::LastRun| {
                run.written.since(origin).as_nanos() / DAY.as_nanos() == u128::from(day)
            };
            let count = done.iter().filter(of_day).count();
            // Without a promise, a run whose record was lost is repeated or missed, as was wanted.
            let wrong = match self.if_unknown {
                None => count != 1,
                Some(IfUnknown::Fail) => count > 1,
                Some(IfUnknown::Run) => count == 0,
            };
            if wrong {
                let often = if count == 0 { "did not succeed" } else { "succeeded twice" };
                self.net.find(format!("on day {day} the job {often} ({count} times)"));
            }
        }
    }
}

/// A job that runs. There is at most one at a time.
struct Running<'a>(&'a Fleet);

impl<'a> Running<'a> {
    fn begin(fleet: &'a Fleet, process: Process) -> Self {
        if fleet.running.fetch_add(1, Ordering::Relaxed) > 0 {
            fleet.net.find(format!("the job of {process} ran beside another"));
        }
        Self(fleet)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
