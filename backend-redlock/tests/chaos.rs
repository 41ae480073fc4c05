//! Eight clients contend for one name while the nodes of a minority are paused, killed and emptied, cut
//! off, and given wrong clocks; what the clients saw is checked.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use conformance_tests::{
    history::{ALL_RULES, Acquisition, Recorder, What, assert_clean},
    kit::{Clock, Data, Mode, RedisOptions, Server as _},
};
use lock_core::{Env as _, FencingToken, Init, LockClient, SystemEnv};

use self::support::{Nodes, connect, name};

const CLIENTS: u32 = 8;
const NODES: usize = 5;
const RUN: Duration = Duration::from_secs(12);
const LEASE: Duration = Duration::from_millis(900);
const LONGEST: Duration = Duration::from_millis(1500);

/// What the lock protects: it admits no token lower than one that it has seen, at a read or a write.
#[derive(Default)]
struct Resource {
    state: Mutex<(FencingToken, u64)>,
    refused: AtomicU64,
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

async fn update(op: &Acquisition, resource: &Resource, token: FencingToken) {
    let began = op.now();
    let Some(read) = resource.read(token) else { return };
    tokio::time::sleep(Duration::from_micros(SystemEnv.random() as u64 % 20_000)).await;
    let wrote = read + 1;
    let admitted = resource.write(token, wrote);
    let resource = "counter".to_owned();
    op.record(What::Updated { resource, token, began, read, wrote, admitted });
}

async fn contend(
    recorder: Recorder,
    client: LockClient,
    resource: Arc<Resource>,
    end: Arc<AtomicBool>,
) {
    let name = name("job");
    while !end.load(Ordering::SeqCst) {
        let op = recorder.ask(&name);
        let guard = match client.lock(&name).lease(LEASE).wait(LONGEST).acquire().await {
            Ok(guard) => guard,
            Err(error) => {
                op.failed(&error);
                continue;
            }
        };
        op.acquired(&guard);
        // Now and then for longer than a lease, so that renewals are under fire, too.
        let times = if SystemEnv.random().is_multiple_of(16) { 150 } else { 2 };
        for _ in 0..times {
            update(&op, &resource, guard.token()).await;
            if !op.look(&guard) {
                break;
            }
        }
        op.given_up();
        op.released(&guard.release().await);
    }
    client.close().await;
}

/// Goes round all faults, each on a node drawn by lot, never on more than a minority at once.
async fn disturb(nodes: &mut Nodes, clocks: &[Clock], end: &AtomicBool) -> [u32; 6] {
    let mut done = [0; 6];
    let pause = async |least: u64| {
        let more = SystemEnv.random() as u64 % 600;
        tokio::time::sleep(Duration::from_millis(least + more)).await;
    };
    for round in 0.. {
        if end.load(Ordering::SeqCst) {
            break;
        }
        let at = SystemEnv.random() as usize % NODES;
        let other = (at + 1) % NODES;
        let kind = round % done.len();
        match kind {
            0 => {
                nodes.servers[at].pause().unwrap();
                pause(200).await;
                nodes.servers[at].resume().unwrap();
            }
            1 => {
                let before = nodes.servers[at].info("run_id").await.unwrap();
                nodes.servers[at].restart(Data::Lose).await.unwrap();
                assert_ne!(nodes.servers[at].info("run_id").await.unwrap(), before);
                pause(50).await;
            }
            2 => {
                nodes.proxies[at].set(Mode::Cut).await.unwrap();
                nodes.proxies[other].set(Mode::HalfCut).await.unwrap();
                pause(200).await;
                nodes.proxies[at].set(Mode::Pass).await.unwrap();
                nodes.proxies[other].set(Mode::Pass).await.unwrap();
            }
            3 => {
                nodes.proxies[at].set(Mode::Hold).await.unwrap();
                nodes.servers[other].pause().unwrap();
                pause(300).await;
                nodes.proxies[at].set(Mode::Pass).await.unwrap();
                nodes.servers[other].resume().unwrap();
            }
            4 => {
                // A clock that is ahead for a while may end leases unseen, which is not covered: its
                // node is emptied, too. One that is behind ends none.
                let ahead = (round / done.len()).is_multiple_of(2);
                let seconds = if ahead { 3.0 } else { -3.0 };
                clocks[at].step(seconds).unwrap();
                pause(300).await;
                if ahead {
                    nodes.servers[at].kill().unwrap();
                }
                clocks[at].step(-seconds).unwrap();
                if ahead {
                    nodes.servers[at].restart(Data::Lose).await.unwrap();
                }
            }
            _ => {
                let late = Duration::from_millis(30);
                nodes.proxies[at]
                    .set(Mode::Delay { to_server: late, to_client: late })
                    .await
                    .unwrap();
                pause(200).await;
                nodes.proxies[at].set(Mode::Pass).await.unwrap();
            }
        }
        done[kind] += 1;
        pause(0).await;
    }
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "KNOWN DEFECT: one of its runs recorded two holders; see the crate's docs"]
async fn eight_clients_under_random_faults() {
    let mut clocks = Vec::new();
    for _ in 0..NODES {
        clocks.push(Clock::new().await.unwrap());
    }
    let options = clocks.iter().map(|clock| RedisOptions::new().clock(clock)).collect();
    let mut nodes = Nodes::bare(options).await;
    let init = Init { first_use: true, longest_lease: Some(LONGEST), ..Init::default() };
    connect(&nodes.url("timeout=5s&node_timeout=2s")).await.init(&init).await.unwrap();
    let url = nodes.proxied_url("timeout=1s&node_timeout=50ms");
    let (resource, end) = (Arc::new(Resource::default()), Arc::new(AtomicBool::new(false)));
    let recorders: Vec<_> = (0..CLIENTS).map(Recorder::new).collect();
    let mut tasks = Vec::new();
    for recorder in &recorders {
        let client = LockClient::new(connect(&url).await);
        let (resource, end) = (resource.clone(), end.clone());
        tasks.push(tokio::spawn(contend(recorder.clone(), client, resource, end)));
    }
    let over = end.clone();
    tokio::spawn(async move {
        tokio::time::sleep(RUN).await;
        over.store(true, Ordering::SeqCst);
    });
    let faults = disturb(&mut nodes, &clocks, &end).await;
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
    assert!(faults.iter().all(|times| *times > 0), "a fault never happened: {faults:?}");
    assert!(acquired >= 20, "hardly anything was acquired: {acquired}");
    assert_clean(&history, ALL_RULES);
}
