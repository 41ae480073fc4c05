//! Eight clients contend while the network and the members of a cluster fail at random.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use conformance_tests::history::{ALL_RULES, Recorder, What, assert_clean};
use lock_core::{Env as _, LockClient, LockName, SystemEnv};
use servers::{Etcd, EtcdOptions, Mode, Proxy, Server as _};

const CLIENTS: u32 = 8;
const NAMES: u64 = 2;
/// Short, so that some locks are lost.
const LEASE: Duration = Duration::from_secs(2);
/// How many faults happen.
const FAULTS: u64 = 24;
/// Far more than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// Small random numbers from a seed (splitmix64).
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }

    fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most - least))
    }
}

/// How many faults of each kind happened.
#[derive(Debug, Default)]
struct Faults {
    network: u64,
    paused: u64,
    killed: u64,
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_clients_under_random_faults_leave_a_clean_history() {
    let seed = match std::env::var("LEASEHOLD_CHAOS_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_) => SystemEnv.random() as u64,
    };
    println!("LEASEHOLD_CHAOS_SEED={seed}");
    let mut etcd = Etcd::three(EtcdOptions::new()).await.unwrap();
    let mut proxies = Vec::new();
    for member in etcd.endpoints() {
        proxies.push(Proxy::start(member).await.unwrap());
    }
    let members: Vec<_> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
    let url = format!("etcd://{}?timeout=1s", members.join(","));
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for each in 0..CLIENTS {
        let client = LockClient::new(backend_etcd::connect(&url).await.unwrap());
        let rng = Rng(seed ^ u64::from(each) << 32);
        tasks.push(tokio::spawn(contend(client, each, rng, Arc::clone(&stop))));
    }
    let faults = inject(&mut etcd, &proxies, Rng(seed)).await;
    assert!(faults.network > 0 && faults.paused > 0 && faults.killed > 0, "{faults:?}");
    stop.store(true, Ordering::Relaxed);
    let mut history = Recorder::new(CLIENTS).history();
    for task in tasks {
        let recorder = tokio::time::timeout(PATIENCE, task).await.expect("nobody is stuck");
        history = history.join(recorder.unwrap().history());
    }
    let count = |wanted: fn(&What) -> bool| {
        history.events().iter().filter(|event| wanted(&event.what)).count()
    };
    let acquired = count(|what| matches!(what, What::Acquired { .. }));
    let failed = count(|what| matches!(what, What::NotAcquired { .. } | What::Cancelled));
    let lost = count(|what| matches!(what, What::Lost { .. }));
    println!("{acquired} acquired, {failed} not, {lost} lost; {faults:?}");
    assert!(acquired > 20, "too little happened: {acquired}");
    assert_clean(&history, ALL_RULES);

    // No entry is left, and nothing was mistaken for a restore.
    let empty = async {
        for name in 0..NAMES {
            let entries = format!("leasehold/job {name}/");
            while !etcd.ctl(&["get", "--prefix", "--keys-only", &entries]).await.unwrap().is_empty()
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    tokio::time::timeout(PATIENCE, empty).await.expect("every entry ends");
    let key = "leasehold/%leasehold/quarantine";
    assert_eq!(etcd.ctl(&["get", key, "--keys-only"]).await.unwrap(), "");
}

/// One fault after the other. Only one member is down at a time, so there is a majority.
async fn inject(etcd: &mut Etcd, proxies: &[Proxy], mut rng: Rng) -> Faults {
    let mut faults = Faults::default();
    for _ in 0..FAULTS {
        let member = rng.below(3) as usize;
        // Sometimes for longer than the lease.
        let most = if rng.below(6) == 0 { 4_000 } else { 1_000 };
        let span = rng.millis(100, most);
        match rng.below(8) {
            0 => {
                // Not the leader: the guarantees assume that no leader comes back (see `members`).
                let leader = etcd.leader().await.unwrap();
                let member = if member == leader { (member + 1) % 3 } else { member };
                etcd.members()[member].pause().unwrap();
                tokio::time::sleep(span).await;
                etcd.members()[member].resume().unwrap();
                faults.paused += 1;
            }
            1 => {
                etcd.member_mut(member).process_mut().kill().unwrap();
                tokio::time::sleep(span).await;
                etcd.member_mut(member).process_mut().start_again().unwrap();
                faults.killed += 1;
            }
            kind => {
                let to_server = rng.millis(1, 300);
                let mode = match kind {
                    2 => Mode::Cut,
                    3 => Mode::Reset,
                    4 => Mode::BlackHole,
                    5 => Mode::HalfCut,
                    6 => Mode::Hold,
                    _ => Mode::Delay { to_server, to_client: to_server / 2 },
                };
                // Sometimes the network of all members: no client reaches any.
                let all = rng.below(4) == 0;
                for (at, proxy) in proxies.iter().enumerate() {
                    if all || at == member {
                        proxy.set(mode).await.unwrap();
                    }
                }
                tokio::time::sleep(span).await;
                for proxy in proxies {
                    proxy.set(Mode::Pass).await.unwrap();
                }
                faults.network += 1;
            }
        }
        etcd.wait_healthy().await.unwrap();
    }
    // The random numbers may contain no pause or kill, so there is one of each here.
    let follower = (etcd.leader().await.unwrap() + 1) % 3;
    etcd.members()[follower].pause().unwrap();
    etcd.members()[follower].resume().unwrap();
    etcd.member_mut(1).process_mut().kill().unwrap();
    etcd.member_mut(1).process_mut().start_again().unwrap();
    etcd.wait_healthy().await.unwrap();
    faults.paused += 1;
    faults.killed += 1;
    faults
}

async fn contend(client: LockClient, number: u32, mut rng: Rng, stop: Arc<AtomicBool>) -> Recorder {
    let recorder = Recorder::new(number);
    while !stop.load(Ordering::Relaxed) {
        let name = LockName::new(format!("job {}", rng.below(NAMES))).unwrap();
        let wait = rng.millis(50, 6_000);
        let op = recorder.ask(&name);
        let acquire = client.lock(name).lease(LEASE).wait(wait).acquire();
        // Some give up before they have an answer.
        let acquired = match rng.below(6) {
            0 => tokio::time::timeout(wait / 4, acquire).await,
            _ => Ok(acquire.await),
        };
        let guard = match acquired {
            Err(_) => {
                op.cancelled();
                continue;
            }
            Ok(Err(error)) => {
                op.failed(&error);
                continue;
            }
            Ok(Ok(guard)) => guard,
        };
        op.acquired(&guard);
        // Most hold the lock for a moment, some for longer than a lease.
        let most = if rng.below(24) == 0 { 3_000 } else { 30 };
        let until = SystemEnv.now() + rng.millis(1, most);
        while SystemEnv.now() < until && op.look(&guard) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        if !guard.is_valid() {
            op.lost(guard.lost().await);
        }
        op.given_up();
        if rng.below(4) == 0 {
            drop(guard);
        } else {
            op.released(&guard.release().await);
        }
    }
    client.close().await;
    recorder
}
