//! The work of a client process: tasks that acquire, hold and release locks, as a seed says.

use std::{io::Write as _, process::ExitCode, sync::Arc, time::Duration};

use futures_util::future::join_all;
use lock_core::{Guard, LockClient, LockName, Request};
use tokio::sync::watch;

use crate::proof::clients::process::{ClientSpec, Order, Role};
use crate::proof::clients::record::Line;
use crate::proof::clients::registers::Update;
use crate::proof::clients::waiting::Waiting;
use crate::proof::plan::rng::Rng;
use crate::proof::plan::system_under_test::Connect;
use conformance_tests::{
    Observed,
    history::{Acquisition, Recorder},
};

/// How often a holder checks its guard.
const LOOK: Duration = Duration::from_millis(20);
/// How long a task pauses after an error of the store, so that it does not use up its operations at
/// once.
const AFTER_ERROR: Duration = Duration::from_millis(50);

/// How long tasks may take to end after the client has closed.
const TASKS_END_WITHIN: Duration = Duration::from_secs(5);

/// The orders so far.
#[derive(Clone, Copy, Debug, Default)]
struct Orders {
    end_hold: bool,
    finish: bool,
}

/// The `main` of a client process.
pub(crate) fn main(runtime: &tokio::runtime::Runtime, connect: Connect) -> ExitCode {
    let mut first = String::new();
    let read = std::io::stdin().read_line(&mut first).map(|_| serde_json::from_str(&first));
    let Ok(Ok(spec)) = read else {
        eprintln!("a client process of the proof got no description of its work on standard input");
        return ExitCode::FAILURE;
    };
    let (orders, ordered) = watch::channel(Orders::default());
    std::thread::spawn(move || {
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).is_ok_and(|read| read > 0) {
            match serde_json::from_str(&line) {
                Ok(Order::EndHold) => orders.send_modify(|orders| orders.end_hold = true),
                Ok(Order::Finish) => orders.send_modify(|orders| orders.finish = true),
                Err(_) => {}
            }
            line.clear();
        }
        // The parent has gone.
        std::process::exit(1);
    });
    match runtime.block_on(run(spec, ordered, connect)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("a client of the proof: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(
    spec: ClientSpec,
    orders: watch::Receiver<Orders>,
    connect: Connect,
) -> Result<(), lock_core::Error> {
    let (client, waiting) = connected(&spec, connect, || {}).await?;
    let (other, _) = connected(&spec, connect, || {}).await?;
    // An heir has a client, and so queue entries, of its own.
    let process = spec.process;
    let heir = match spec.role {
        Role::Heir => Some(connected(&spec, connect, move || say(&Line::Came { process })).await?),
        _ => None,
    };
    say(&Line::Ready);
    let recorder = Recorder::with_sink(spec.process, |event| say(&Line::Saw(event.clone())));
    let spec = Arc::new(spec);
    let mut tasks: Vec<_> = (0..spec.tasks)
        .map(|task| {
            let rng = Rng::of(spec.seed, spec.process, task);
            let shared = (client.clone(), waiting.clone());
            let (client, waiting) = heir.clone().filter(|_| task == 0).unwrap_or(shared);
            let worker = Worker {
                spec: Arc::clone(&spec),
                client,
                other: other.clone(),
                recorder: recorder.clone(),
                rng,
                orders: orders.clone(),
                waiting,
            };
            tokio::spawn(worker.run(task))
        })
        .collect();
    for task in join_all(&mut tasks).await {
        task.expect("a task that does not panic");
    }
    for client in [client, other] {
        client.close().await;
    }
    if let Some((heir, _)) = heir {
        heir.close().await;
    }
    // A closed client must have no running task. The tasks of its connections end soon after the
    // last handle is dropped.
    let began = std::time::Instant::now();
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    while alive() > 0 && began.elapsed() < TASKS_END_WITHIN {
        tokio::time::sleep(LOOK).await;
    }
    say(&Line::Closed { process: spec.process, tasks: alive() });
    Ok(())
}

/// Connects a client. Its queue entries are noted, and then reported to `came`.
async fn connected(
    spec: &ClientSpec,
    connect: Connect,
    came: impl Fn() + Send + Sync + 'static,
) -> Result<(LockClient, Waiting), lock_core::Error> {
    let waiting = Waiting::default();
    let of = waiting.clone();
    let store = connect(spec.url.clone()).await?;
    let enqueued = move |request: &Request| {
        of.enqueued(request);
        came();
    };
    Ok((LockClient::new(Observed::enqueues(store, Arc::new(enqueued))), waiting))
}

/// Prints a line at once, so that the parent gets it even if this process is killed.
fn say(line: &Line) {
    let text = serde_json::to_string(line).expect("a line of plain data") + "\n";
    let mut stdout = std::io::stdout().lock();
    // If the parent is gone, the closed standard input ends this process.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

pub(super) struct Worker {
    pub(super) spec: Arc<ClientSpec>,
    pub(super) client: LockClient,
    /// A second client of this process, which attaches locks.
    pub(super) other: LockClient,
    pub(super) recorder: Recorder,
    pub(super) rng: Rng,
    orders: watch::Receiver<Orders>,
    waiting: Waiting,
}

impl Worker {
    async fn run(mut self, task: u32) {
        // The first task has the role of its process.
        let special = task == 0 && self.spec.role != Role::Other;
        if special && self.spec.role == Role::Victim {
            self.victim().await;
        }
        let heir = special && self.spec.role == Role::Heir;
        let mut made = 0;
        loop {
            let orders = *self.orders.borrow();
            if orders.finish && (heir || made >= self.spec.operations) {
                return;
            }
            let fine = if heir { self.inherit().await } else { self.operate().await };
            made += 1;
            let rest = self.spec.rest.as_millis() as u64;
            let pause = if fine { self.rng.millis(rest) } else { AFTER_ERROR };
            tokio::time::sleep(pause).await;
        }
    }

    /// Makes one operation; returns whether the store answered.
    async fn operate(&mut self) -> bool {
        let names = &self.spec.names;
        let name = names[self.rng.roll(names.len() as u64) as usize].clone();
        let long = self.rng.roll(4) == 0;
        if self.rng.roll(5) == 0 {
            return self.compose().await;
        }
        let hold = self.rng.millis(if long { 250 } else { 3 });
        let cancel = self.rng.millis(60);
        if self.client.guarantees().shared.holds() && self.rng.roll(3) == 0 {
            let cancel = (self.rng.roll(4) == 0).then_some(cancel);
            return self.read(&name, hold, cancel).await;
        }
        let guard = match self.rng.roll(4) {
            0 => self.attempt(&name).await,
            1 => self.wait(&name, Some(cancel)).await,
            _ => self.wait(&name, None).await,
        };
        match guard {
            Ok(Some((op, guard))) => {
                let careless = self.is_careless();
                self.hold(&op, &guard, tokio::time::sleep(hold), careless).await;
                match self.rng.roll(3) {
                    0 => self.hand_over(op, guard).await,
                    _ => self.let_go(op, guard).await,
                }
                true
            }
            Ok(None) => true,
            Err(()) => false,
        }
    }

    /// Holds as a reader, and reads; returns whether the store answered. With `cancel` the wait is
    /// dropped after that.
    async fn read(&mut self, name: &LockName, hold: Duration, cancel: Option<Duration>) -> bool {
        let op = self.recorder.ask_shared(name);
        let lock = self.client.lock(name).shared().lease(self.spec.lease).wait(self.spec.wait);
        let limit = cancel.unwrap_or(Duration::MAX);
        match tokio::time::timeout(limit, lock.acquire()).await {
            Ok(Ok(guard)) => {
                op.acquired(&guard);
                // After the register has seen this token, it admits no earlier writer.
                drop(self.begin(&op, &guard).await);
                self.watch(&op, &guard, tokio::time::sleep(hold)).await;
                op.look(&guard);
                self.let_go(op, guard).await;
                true
            }
            Ok(Err(error)) => {
                op.failed(&error);
                false
            }
            Err(_) => {
                op.cancelled();
                true
            }
        }
    }

    async fn inherit(&mut self) -> bool {
        let name = self.spec.names[0].clone();
        let Ok(got) = self.wait(&name, None).await else { return false };
        if let Some((op, guard)) = got {
            say(&Line::Came { process: self.spec.process });
            let careless = self.is_careless();
            self.hold(&op, &guard, std::future::ready(()), careless).await;
            self.let_go(op, guard).await;
        }
        // If the store does not serve in order, others must have a chance, too.
        tokio::time::sleep(LOOK).await;
        true
    }

    async fn attempt(&self, name: &LockName) -> Result<Option<(Acquisition, Guard)>, ()> {
        let op = self.recorder.ask(name);
        let answer = self.client.lock(name).lease(self.spec.lease).try_acquire().await;
        op.tried(&answer);
        answer.map(|answer| answer.guard().map(|guard| (op, guard))).map_err(drop)
    }

    /// Waits for the lock. With `cancel` the future is dropped after that.
    async fn wait(
        &self,
        name: &LockName,
        cancel: Option<Duration>,
    ) -> Result<Option<(Acquisition, Guard)>, ()> {
        let op = self.recorder.ask(name);
        let lock = self.client.lock(name).lease(self.spec.lease).wait(self.spec.wait);
        self.waiting.begin(name, &op);
        let limit = cancel.unwrap_or(Duration::MAX);
        let answer = tokio::time::timeout(limit, lock.acquire()).await;
        self.waiting.end(name, &op);
        match answer {
            Ok(Ok(guard)) => {
                op.acquired(&guard);
                Ok(Some((op, guard)))
            }
            Ok(Err(error)) => {
                op.failed(&error);
                Err(())
            }
            Err(_) => {
                op.cancelled();
                Ok(None)
            }
        }
    }

    /// Whether the next holder writes without a check of its guard.
    fn is_careless(&mut self) -> bool {
        self.spec.careless && self.rng.roll(3) == 0
    }

    /// Reads, holds until `end`, and writes.
    pub(super) async fn hold(
        &self,
        op: &Acquisition,
        guard: &Guard,
        end: impl Future<Output = ()>,
        careless: bool,
    ) {
        let update = self.begin(op, guard).await;
        let read = self.read_record(guard).await;
        self.watch(op, guard, end).await;
        if careless || op.look(guard) {
            self.finish(op, update).await;
            self.write_record(op, guard, read).await;
        }
    }

    /// Checks the guard again and again, until `end` or its loss.
    pub(super) async fn watch(
        &self,
        op: &Acquisition,
        guard: &Guard,
        end: impl Future<Output = ()>,
    ) {
        let mut end = std::pin::pin!(end);
        let mut lost = std::pin::pin!(guard.lost());
        loop {
            tokio::select! {
                reason = &mut lost => return op.lost(reason),
                () = &mut end => return,
                () = tokio::time::sleep(LOOK) => {
                    op.look(guard);
                }
            }
        }
    }

    pub(super) async fn let_go(&mut self, op: Acquisition, guard: Guard) {
        op.given_up();
        if self.rng.roll(4) == 0 {
            drop(guard);
        } else {
            op.released(&guard.release().await);
        }
    }

    /// Holds the first name until it loses it or gets [`Order::EndHold`], then writes in any case,
    /// and hands the lock over if it still has it.
    async fn victim(&mut self) {
        let name = self.spec.names[0].clone();
        let (op, guard) = loop {
            match self.wait(&name, None).await {
                Ok(Some(got)) => break got,
                _ => tokio::time::sleep(AFTER_ERROR).await,
            }
        };
        let update = self.begin(&op, &guard).await;
        let read = self.read_record(&guard).await;
        say(&Line::Holds(op.op(), guard.token()));
        let mut orders = self.orders.clone();
        let told = async {
            // An error means that the parent is gone.
            let _ = orders.wait_for(|orders| orders.end_hold).await;
        };
        self.watch(&op, &guard, told).await;
        if self.spec.careless || op.look(&guard) {
            self.finish(&op, update).await;
            self.write_record(&op, &guard, read).await;
        }
        self.hand_over(op, guard).await;
    }

    async fn begin(&self, op: &Acquisition, guard: &Guard) -> Update {
        let name = guard.name().as_str();
        let begun = Update::begin(self.spec.registers, name, op.op(), guard.token());
        begun.await.expect("the parent's registers")
    }

    async fn finish(&self, op: &Acquisition, update: Update) {
        update.finish(value_of(op)).await.expect("the parent's registers");
    }
}

/// What a holder writes, which is different for every hold.
pub(super) fn value_of(op: &Acquisition) -> u64 {
    let op = op.op();
    (u64::from(op.process) + 1) << 40 | (op.number + 1)
}
