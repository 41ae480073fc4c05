//! Where the time of a lock goes: its requests by hand, each floor with one thing more than the last.

use std::time::Instant;

use conformance_tests::kit::Etcd;
use etcd_client::{Client, Compare, CompareOp, PutOptions, Txn, TxnOp};
use futures_util::future::try_join_all;

use crate::{
    median, peers,
    single::{ROUNDS, TIMES, VALUE, micros},
};

/// So many places of one name are in the past, each with a key of its own.
const PAST: usize = 2_000;

#[derive(Clone, Copy)]
enum Floor {
    /// A transaction with one condition, and one that deletes.
    Bare,
    /// All conditions of ours; the key is tied to a lease.
    Leased,
    /// And a revoke in the place of the second transaction.
    Revoked,
    /// And as many leases asked for, at once and beside it.
    Beside,
    /// And a key for each lease, as etcd's own tools have it.
    Past,
}

const FLOORS: [(&str, Floor); 5] = [
    ("two bare transactions", Floor::Bare),
    ("with our conditions and a lease", Floor::Leased),
    ("and a revoke", Floor::Revoked),
    ("and leases asked for beside it", Floor::Beside),
    ("or 2,000 keys of the past", Floor::Past),
];

impl Floor {
    /// Takes and gives back, in microseconds.
    async fn pair(self, client: &Client, lease: i64) -> [f64; 2] {
        let began = Instant::now();
        let (prefix, key) = match self {
            Self::Bare => ("parts/bare/", "parts/bare/1".to_owned()),
            Self::Past => ("parts/past/", format!("parts/past/{lease:x}")),
            Self::Leased | Self::Revoked | Self::Beside => {
                ("parts/lock/", "parts/lock/1".to_owned())
            }
        };
        let take = if let Self::Bare = self {
            let free = Compare::version(key.as_str(), CompareOp::Equal, 0);
            Txn::new().when([free]).and_then([TxnOp::put(key.as_str(), VALUE, None)])
        } else {
            let free = [
                Compare::create_revision(prefix, CompareOp::Equal, 0).with_prefix(),
                Compare::mod_revision("parts/settings", CompareOp::Equal, 0),
                Compare::version("parts/quarantine", CompareOp::Equal, 0),
                Compare::version("parts/tombstone", CompareOp::Equal, 0),
            ];
            let options = PutOptions::new().with_lease(lease);
            Txn::new().when(free).and_then([TxnOp::put(key.as_str(), VALUE, Some(options))])
        };
        assert!(client.kv_client().txn(take).await.unwrap().succeeded());
        let taken = micros(began);
        let began = Instant::now();
        if let Self::Bare | Self::Leased = self {
            let held = Compare::version(key.as_str(), CompareOp::Equal, 1);
            let give = Txn::new().when([held]).and_then([TxnOp::delete(key, None)]);
            assert!(client.kv_client().txn(give).await.unwrap().succeeded());
        } else {
            client.lease_client().revoke(lease).await.unwrap();
        }
        [taken, micros(began)]
    }
}

/// That this process has used, in microseconds.
fn processor_time() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 * 1e6 + used.tv_nsec as f64 / 1e3
}

async fn leases(client: &Client, count: usize) -> Vec<i64> {
    let mut leases = Vec::new();
    for _ in 0..count {
        leases.push(client.lease_client().grant(30, None).await.unwrap().id());
    }
    leases
}

/// In one burst, which ends by itself as the leases do.
fn ask_beside(client: Client) {
    tokio::spawn(async move {
        let ask = |_| {
            let mut leases = client.lease_client();
            async move { leases.grant(30, None).await }
        };
        try_join_all((0..TIMES).map(ask)).await.unwrap();
    });
}

pub(crate) async fn run(etcd: &Etcd) {
    let address = peers::address(etcd);
    let (client, ours) = (peers::plain(&address).await, peers::ours(&address).await);
    for lease in leases(&client, PAST).await {
        Floor::Past.pair(&client, lease).await;
    }
    let mut all = vec![[Vec::new(), Vec::new()]; FLOORS.len() + 1];
    let mut busy = vec![Vec::new(); FLOORS.len() + 1];
    for _ in 0..ROUNDS {
        let (floors, last) = all.split_at_mut(FLOORS.len());
        for (index, ((_, floor), all)) in FLOORS.iter().zip(floors).enumerate() {
            let leases = leases(&client, TIMES).await;
            let mut one = [Vec::new(), Vec::new()];
            let before = processor_time();
            for (at, lease) in leases.iter().enumerate() {
                if let (Floor::Beside, 5) = (floor, at) {
                    ask_beside(client.clone());
                }
                add(&mut one, floor.pair(&client, *lease).await);
            }
            busy[index].push((processor_time() - before) / TIMES as f64);
            add(all, one.map(median));
            if let Floor::Bare | Floor::Leased = floor {
                for lease in leases {
                    client.lease_client().revoke(lease).await.unwrap();
                }
            }
        }
        let mut one = [Vec::new(), Vec::new()];
        let before = processor_time();
        for _ in 0..TIMES {
            let began = Instant::now();
            let guard = ours.lock("parts").acquire().await.unwrap();
            let taken = micros(began);
            let began = Instant::now();
            guard.release().await.unwrap();
            add(&mut one, [taken, micros(began)]);
        }
        busy[FLOORS.len()].push((processor_time() - before) / TIMES as f64);
        add(&mut last[0], one.map(median));
    }
    println!("the parts of a lock, by hand, with leases from before; medians");
    let names = FLOORS.iter().map(|(name, _)| *name).chain(["ours"]);
    for ((name, pair), busy) in names.zip(all).zip(busy) {
        let ([take, give], busy) = (pair.map(median), median(busy));
        println!("  {name:32} {take:5.0} + {give:4.0} µs, of the client's processor {busy:4.0} µs");
    }
}

fn add(all: &mut [Vec<f64>; 2], one: [f64; 2]) {
    all.iter_mut().zip(one).for_each(|(all, one)| all.push(one));
}
