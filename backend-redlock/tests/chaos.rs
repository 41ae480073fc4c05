//! Eight clients compete for one name, while the nodes of a minority are paused, killed and
//! emptied, cut off, and given wrong clocks. Then the test checks what the clients saw. Each client
//! has several tasks on the common name, so that releases carry the next attempt, and others on
//! names of its own, so that calls share batches. On the common name, one turn in three is a
//! reader's.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "chaos/witness.rs"]
mod witness;

#[path = "all/support/mod.rs"]
mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use conformance_tests::history::{
    ALL_RULES, Acquisition, Event, History, Recorder, What, assert_clean, check,
};
use lock_core::{Env as _, FencingToken, Init, LockClient, LockName, SystemEnv};
use servers::{Clock, Data, Mode, RedisOptions, Server as _};
use tokio::task::JoinSet;

use self::{
    support::{Nodes, connect, name},
    witness::Witness,
};

const CLIENTS: u32 = 8;
/// The common name.
const JOB: &str = "job";
/// The tasks of a client on the common name, and as many on its own names.
const TASKS: u64 = 2;
const NODES: usize = 5;
const KINDS: usize = 6;
/// How long the test runs, and how much must have happened, however slow the machine is.
const RUN: Duration = Duration::from_secs(12);
const ENOUGH: u64 = 20;
const LEASE: Duration = Duration::from_millis(900);
const LONGEST: Duration = Duration::from_millis(1500);

/// Random numbers that are the same for the same seed (splitmix64).
struct Lots(u64);

impl Lots {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// The data that the lock protects. A read or a write with a lower token than the highest so far is
/// refused.
#[derive(Default)]
struct Resource {
    state: Mutex<(FencingToken, u64)>,
    refused: AtomicU64,
    holders: AtomicU64,
    readers: AtomicU64,
    /// How many readers came while another reader was there.
    together: AtomicU64,
}

impl Resource {
    fn read(&self, token: FencingToken) -> Option<u64> {
        let mut state = self.state.lock().unwrap();
        if token < state.0 {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return None;
        }
        state.0 = token;
        Some(state.1)
    }

    fn write(&self, token: FencingToken, value: u64) -> bool {
        let mut state = self.state.lock().unwrap();
        if token < state.0 {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return false;
        }
        *state = (token, value);
        true
    }
}

async fn update(
    op: &Acquisition,
    resource: &Resource,
    name: &LockName,
    token: FencingToken,
    lots: &mut Lots,
) {
    let began = op.now();
    let Some(read) = resource.read(token) else { return };
    tokio::time::sleep(Duration::from_micros(lots.below(20_000))).await;
    let wrote = read + 1;
    let admitted = resource.write(token, wrote);
    let resource = format!("counter of {name}");
    op.record(What::Updated { resource, token, began, read, wrote, admitted });
}

/// After a reader's token was seen, no earlier writer may write.
async fn read(resource: &Resource, token: FencingToken, lots: &mut Lots) {
    let others = resource.readers.fetch_add(1, Ordering::SeqCst);
    resource.together.fetch_add(others.min(1), Ordering::SeqCst);
    resource.read(token);
    tokio::time::sleep(Duration::from_micros(lots.below(20_000))).await;
    resource.readers.fetch_sub(1, Ordering::SeqCst);
}

async fn contend(
    recorder: Recorder,
    client: LockClient,
    resource: Arc<Resource>,
    end: Arc<AtomicBool>,
    mut lots: Lots,
    name: LockName,
) {
    while !end.load(Ordering::SeqCst) {
        let shared = name.as_str() == JOB && lots.below(3) == 0;
        let lock = client.lock(&name).lease(LEASE).wait(LONGEST);
        let (op, lock) = match shared {
            true => (recorder.ask_shared(&name), lock.shared()),
            false => (recorder.ask(&name), lock),
        };
        let guard = match lock.acquire().await {
            Ok(guard) => guard,
            Err(error) => {
                op.failed(&error);
                continue;
            }
        };
        op.acquired(&guard);
        resource.holders.fetch_add(1, Ordering::SeqCst);
        // Sometimes for longer than a lease, so that renewals happen during faults, too.
        let times = if lots.below(16) == 0 { 150 } else { 2 };
        for _ in 0..times {
            match shared {
                true => read(&resource, guard.token(), &mut lots).await,
                false => update(&op, &resource, &name, guard.token(), &mut lots).await,
            }
            if !op.look(&guard) {
                break;
            }
        }
        op.given_up();
        op.released(&guard.release().await);
    }
}

/// All tasks of one client.
async fn use_client(
    number: usize,
    url: String,
    recorder: Recorder,
    job: Arc<Resource>,
    end: Arc<AtomicBool>,
    mut lots: Lots,
) {
    let client = LockClient::new(connect(&url).await);
    let (own, own_name) = (Arc::new(Resource::default()), name(&format!("own {number}")));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        for (resource, name) in [(&job, name(JOB)), (&own, own_name.clone())] {
            let lots = Lots(lots.below(u64::MAX));
            let (recorder, client, end) = (recorder.clone(), client.clone(), end.clone());
            tasks.spawn(contend(recorder, client, resource.clone(), end, lots, name));
        }
    }
    tasks.join_all().await;
    client.close().await;
}

/// Applies all faults, each time in a random order, each on a random node, and never on more than a
/// minority at once. A node that lost its data is in quarantine afterwards, so the next fault may
/// follow at once. A clock that was ahead is put right and its node emptied, since leases that it
/// ended unseen are not covered.
async fn disturb(
    nodes: &mut Nodes,
    clocks: &[Clock],
    witness: &Witness,
    lots: &mut Lots,
    end: &AtomicBool,
) -> [u32; KINDS] {
    let mut done = [0; KINDS];
    let mut order: Vec<usize> = Vec::new();
    while !end.load(Ordering::SeqCst) || done.contains(&0) {
        if order.is_empty() {
            order = (0..KINDS).collect();
        }
        let kind = order.swap_remove(lots.below(order.len() as u64) as usize);
        let at = lots.below(NODES as u64) as usize;
        disturb_once(kind, at, nodes, clocks, witness, lots).await;
        done[kind] += 1;
        witness.note(format!("fault {kind} of node {at} over"));
        pause(0, lots).await;
    }
    done
}

async fn pause(least: u64, lots: &mut Lots) {
    tokio::time::sleep(Duration::from_millis(least + lots.below(600))).await;
}

async fn disturb_once(
    kind: usize,
    at: usize,
    nodes: &mut Nodes,
    clocks: &[Clock],
    witness: &Witness,
    lots: &mut Lots,
) {
    let other = (at + 1) % NODES;
    match kind {
        0 => {
            witness.note(format!("node {at} paused"));
            nodes.servers[at].pause().unwrap();
            pause(200, lots).await;
            nodes.servers[at].resume().unwrap();
        }
        1 => {
            witness.note(format!("node {at} killed and emptied"));
            let before = nodes.servers[at].info("run_id").await.unwrap();
            nodes.servers[at].restart(Data::Lose).await.unwrap();
            assert_ne!(nodes.servers[at].info("run_id").await.unwrap(), before);
            pause(50, lots).await;
        }
        2 => {
            witness.note(format!("node {at} cut off, replies of node {other} lost"));
            nodes.proxies[at].set(Mode::Cut).await.unwrap();
            nodes.proxies[other].set(Mode::HalfCut).await.unwrap();
            pause(200, lots).await;
            nodes.proxies[at].set(Mode::Pass).await.unwrap();
            nodes.proxies[other].set(Mode::Pass).await.unwrap();
        }
        3 => {
            witness.note(format!("node {at} held up, node {other} paused"));
            nodes.proxies[at].set(Mode::Hold).await.unwrap();
            nodes.servers[other].pause().unwrap();
            pause(300, lots).await;
            nodes.proxies[at].set(Mode::Pass).await.unwrap();
            nodes.servers[other].resume().unwrap();
        }
        4 => {
            // A clock that is ahead for a while may end leases unseen, which is not covered. So its
            // node is emptied, too. A clock that is behind ends no lease.
            let ahead = lots.below(2) == 0;
            let seconds = if ahead { 3.0 } else { -3.0 };
            witness.note(format!("clock of node {at} stepped by {seconds} s"));
            clocks[at].step(seconds).unwrap();
            pause(300, lots).await;
            if ahead {
                nodes.servers[at].kill().unwrap();
            }
            clocks[at].step(-seconds).unwrap();
            if ahead {
                nodes.servers[at].restart(Data::Lose).await.unwrap();
            }
        }
        _ => {
            witness.note(format!("node {at} slow"));
            let late = Duration::from_millis(30);
            let slow = Mode::Delay { to_server: late, to_client: late };
            nodes.proxies[at].set(slow).await.unwrap();
            pause(200, lots).await;
            nodes.proxies[at].set(Mode::Pass).await.unwrap();
        }
    }
}

/// Prints what the nodes did around each violation.
fn explain(history: &History, witness: &Witness) {
    for violation in check(history, ALL_RULES) {
        let part = |event: &&Event| violation.ops.contains(&event.op);
        let times = history.events().iter().filter(part).map(|event| event.at);
        let (from, until) = (times.clone().min().unwrap(), times.max().unwrap());
        let from = from - LONGEST;
        println!("{violation}; at the nodes:\n{}", witness.between(from, until));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_clients_under_random_faults() {
    let given = std::env::var("LEASEHOLD_CHAOS_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed: u64 = given.unwrap_or_else(|| SystemEnv.random() as u64);
    println!("LEASEHOLD_CHAOS_SEED={seed} draws the same faults");
    let mut clocks = Vec::new();
    for _ in 0..NODES {
        clocks.push(Clock::new().await.unwrap());
    }
    let options = clocks.iter().map(|clock| RedisOptions::new().clock(clock)).collect();
    let mut nodes = Nodes::bare(options).await;
    let init = Init::new().with_first_use(true).with_longest_lease(LONGEST);
    connect(&nodes.url("timeout=5s&node_timeout=2s")).await.init(&init).await.unwrap();
    let url = nodes.proxied_url("timeout=1s&node_timeout=50ms");
    let (resource, end) = (Arc::new(Resource::default()), Arc::new(AtomicBool::new(false)));
    let recorders: Vec<_> = (0..CLIENTS).map(Recorder::new).collect();
    let mut tasks = Vec::new();
    for (number, recorder) in recorders.iter().enumerate() {
        let (resource, end, lots) = (resource.clone(), end.clone(), Lots(!seed ^ number as u64));
        let recorder = recorder.clone();
        tasks.push(tokio::spawn(use_client(number, url.clone(), recorder, resource, end, lots)));
    }
    let (over, seen) = (end.clone(), resource.clone());
    tokio::spawn(async move {
        tokio::time::sleep(RUN).await;
        let enough = || {
            let [holders, together] =
                [&seen.holders, &seen.together].map(|count| count.load(Ordering::SeqCst));
            holders >= ENOUGH && together > 0
        };
        while !enough() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        over.store(true, Ordering::SeqCst);
    });
    let mut witness = Witness::default();
    for (at, server) in nodes.servers.iter().enumerate() {
        witness.watch(at, server.address());
    }
    let faults = disturb(&mut nodes, &clocks, &witness, &mut Lots(seed), &end).await;
    for task in tasks {
        task.await.unwrap();
    }
    let history = recorders.iter().map(Recorder::history).reduce(|all, one| all.join(one)).unwrap();
    let count = |wanted: fn(&What) -> bool| {
        history.events().iter().filter(|event| wanted(&event.what)).count()
    };
    let acquired = count(|what| matches!(what, What::Acquired { .. }));
    let lost = count(|what| matches!(what, What::Looked { until: None }));
    let written = resource.state.lock().unwrap().1;
    println!(
        "faults {faults:?}; {acquired} acquired, {lost} seen lost, {written} writes, {} refused",
        resource.refused.load(Ordering::SeqCst)
    );
    let together = resource.together.load(Ordering::SeqCst);
    println!("{together} readers beside others");
    let batched = witness.batched();
    println!("{batched} attempts in batches, counted on each node");
    assert!(batched >= ENOUGH, "hardly anything went in a batch: {batched}");
    explain(&history, &witness);
    assert_clean(&history, ALL_RULES);
}
