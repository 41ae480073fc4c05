//! How costs grow with the number of tasks, clients or locks, store by store.
//!
//! `cargo bench -p measurements --bench growth [-- STORE… PART… full]` runs some stores, and some
//! of the parts `tasks`, `clients`, `waited`, `held` and `names`; `full` adds the largest sizes. By
//! default it runs all of them, in some minutes. The slope compares a size with the size before, on
//! double logarithmic axes: 0 if one of N costs the same, 1 if its cost grows in proportion to N.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, TryStreamExt as _, future::join_all, stream};
use lock_core::{Guard, LockClient, LockName};
use measurements::bench::{Asked, LEASE, Site, quantile};
use tokio::task::JoinSet;

/// How long processor time is measured while only background work goes on.
const IDLE: Duration = Duration::from_secs(4);
/// The lease of the locks that are only held: clients renew them while processor time is measured.
const SHORT: Duration = Duration::from_secs(12);
/// The lease of the locks that others wait for: clients seldom renew them.
const LONG: Duration = Duration::from_secs(30);

struct Part {
    name: &'static str,
    what: &'static str,
    sizes: &'static [usize],
    largest: usize,
}

const PARTS: [Part; 5] = [
    Part {
        name: "tasks",
        what: "tasks of one client that want one name at once: cost of a handoff",
        sizes: &[1, 10, 100, 1_000],
        largest: 5_000,
    },
    Part {
        name: "clients",
        what: "clients that wait for one name: cost of a handoff; shares of a core while all wait",
        sizes: &[1, 16, 64, 250],
        largest: 1_000,
    },
    Part {
        name: "waited",
        what: "clients that have waited for one name: first grant after the release, then handoffs",
        sizes: &[5, 20, 40],
        largest: 80,
    },
    Part {
        name: "held",
        what: "names that one client holds: acquire and release of one; shares while it renews",
        sizes: &[1_000, 10_000],
        largest: 100_000,
    },
    Part {
        name: "names",
        what: "names that one client waits for: shares while it waits",
        sizes: &[1, 100, 1_000, 10_000],
        largest: 100_000,
    },
];

#[derive(Default)]
struct Cost {
    /// The cost of one, in µs.
    each: f64,
    /// Shares of a core that this process and the server use, in percent.
    shares: Option<[f64; 2]>,
    note: String,
}

/// Shares of a core while only background work goes on.
async fn idle(site: &Site) -> Option<[f64; 2]> {
    let (start, before) = (Instant::now(), site.busy());
    tokio::time::sleep(IDLE).await;
    let (took, after) = (start.elapsed(), site.busy());
    let share = |at: usize| 100.0 * (after[at].saturating_sub(before[at])).div_duration_f64(took);
    Some([share(0), share(1)])
}

fn micros(span: Duration, of: usize) -> f64 {
    span.as_secs_f64() * 1e6 / of as f64
}

async fn tasks(site: &Site, size: usize) -> Cost {
    let client = site.client().await;
    let (calls, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let mut running = JoinSet::new();
    let began = Instant::now();
    for _ in 0..size {
        let (client, calls, served) = (client.clone(), Arc::clone(&calls), Arc::clone(&served));
        running.spawn(async move {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            let guard = client.lock("tasks").lease(LEASE).acquire().await.unwrap();
            served.lock().unwrap().push(call);
            guard.release().await.unwrap();
        });
    }
    running.join_all().await;
    let each = micros(began.elapsed(), size);
    let inversions = served.lock().unwrap().windows(2).filter(|pair| pair[0] > pair[1]).count();
    client.close().await;
    Cost { each, note: format!("{inversions} out of call order"), ..Cost::default() }
}

async fn clients(site: &Site, size: usize) -> Cost {
    let holder = site.client().await;
    let held = holder.lock("clients").lease(LONG).acquire().await.unwrap();
    let each: Vec<_> =
        stream::iter(0..size).map(|_| site.client()).buffered(8).collect::<Vec<_>>().await;
    let took = Arc::new(Mutex::new(Vec::new()));
    let freed = Arc::new(Mutex::new(Instant::now()));
    let mut running = JoinSet::new();
    for client in &each {
        let (client, took, freed) = (client.clone(), Arc::clone(&took), Arc::clone(&freed));
        running.spawn(async move {
            let guard = client.lock("clients").lease(LEASE).acquire().await.unwrap();
            took.lock().unwrap().push(freed.lock().unwrap().elapsed());
            *freed.lock().unwrap() = Instant::now();
            guard.release().await.unwrap();
        });
    }
    waiting(&holder, "clients", size).await;
    let shares = idle(site).await;
    let began = Instant::now();
    *freed.lock().unwrap() = began;
    held.release().await.unwrap();
    running.join_all().await;
    let span = began.elapsed();
    join_all(each.iter().map(LockClient::close)).await;
    holder.close().await;
    let p99 = quantile(&mut took.lock().unwrap(), 0.99) / 1e3;
    Cost { each: micros(span, size), shares, note: format!("p99 {p99:.1} ms") }
}

/// Clients that have waited for [`IDLE`], with connections that did nothing else. A loop of clients
/// shows only handoffs to clients that have just used theirs.
async fn waited(site: &Site, size: usize) -> Cost {
    let holder = site.client().await;
    let held = holder.lock("waited").lease(LONG).acquire().await.unwrap();
    let each: Vec<_> =
        stream::iter(0..size).map(|_| site.client()).buffered(8).collect::<Vec<_>>().await;
    let mut running = JoinSet::new();
    for client in &each {
        let client = client.clone();
        running.spawn(async move {
            let guard = client.lock("waited").lease(LEASE).acquire().await.unwrap();
            let granted = Instant::now();
            guard.release().await.unwrap();
            granted
        });
    }
    waiting(&holder, "waited", size).await;
    let shares = idle(site).await;
    let began = Instant::now();
    held.release().await.unwrap();
    let mut granted = running.join_all().await;
    granted.sort_unstable();
    let first = micros(granted[0] - began, 1) / 1e3;
    let mut took: Vec<_> = granted.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let [median, nine, most] = [0.5, 0.9, 1.0].map(|part| quantile(&mut took, part) / 1e3);
    join_all(each.iter().map(LockClient::close)).await;
    holder.close().await;
    let note = format!("ms: first {first:.1}, then {median:.1}, 90% {nine:.1}, most {most:.1}");
    Cost { each: median * 1e3, shares, note }
}

/// Waits until the store has `size` queue entries for the name. All waiters of one client are one
/// entry.
async fn waiting(client: &LockClient, name: &str, size: usize) {
    let name = LockName::new(name).unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        // A busy store may not answer in time.
        let state = client.inspect(&name).await.ok().flatten();
        match state.and_then(|state| state.waiting) {
            Some(waiting) if waiting >= size as u64 => return,
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    println!("after a minute the store has fewer than {size} queue entries");
}

async fn take(client: &LockClient, prefix: &str, size: usize, lease: Duration) -> Vec<Guard> {
    let locks = (0..size).map(|number| client.lock(format!("{prefix} {number}")).lease(lease));
    stream::iter(locks.map(|lock| lock.acquire())).buffer_unordered(64).try_collect().await.unwrap()
}

/// Releases all, and returns how many were lost.
async fn give_back(guards: Vec<Guard>) -> usize {
    let released = stream::iter(guards.into_iter().map(Guard::release)).buffer_unordered(64);
    released.filter(|released| std::future::ready(released.is_err())).count().await
}

async fn held(site: &Site, size: usize) -> Cost {
    let client = site.client().await;
    let began = Instant::now();
    let guards = take(&client, "held", size, SHORT).await;
    let taken = began.elapsed();
    // By then the renewals are spread over time.
    tokio::time::sleep(SHORT / 3).await;
    let shares = idle(site).await;
    let began = Instant::now();
    let lost = give_back(guards).await;
    let each = micros(taken + began.elapsed(), size);
    client.close().await;
    Cost { each, shares, note: format!("{lost} lost") }
}

async fn names(site: &Site, size: usize) -> Cost {
    let (holder, waiter) = (site.client().await, site.client().await);
    let guards = take(&holder, "names", size, LONG).await;
    let mut running = JoinSet::new();
    for number in 0..size {
        let lock = waiter.lock(format!("names {number}")).lease(LONG);
        running.spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
    }
    waiting(&holder, &format!("names {}", size - 1), 1).await;
    // By then each waiter has sent its second request.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let shares = idle(site).await;
    let began = Instant::now();
    let lost = give_back(guards).await;
    running.join_all().await;
    let each = micros(began.elapsed(), size);
    join_all([holder.close(), waiter.close()]).await;
    Cost { each, shares, note: format!("{lost} lost") }
}

async fn measure(kind: &str, part: &Part, full: bool) {
    let site = Site::start(kind).await;
    println!("\n{kind}: {}", part.what);
    println!("{:>9} {:>11} {:>7} {:>9} {:>9}", "size", "µs each", "slope", "client %", "server %");
    let mut before: Option<(usize, f64)> = None;
    for size in part.sizes.iter().copied().chain(full.then_some(part.largest)) {
        // No database allows so many sessions.
        if part.name == "clients" && size > 300 && matches!(kind, "postgres" | "mysql" | "sqlite") {
            continue;
        }
        let cost = match part.name {
            "tasks" => tasks(&site, size).await,
            "clients" => clients(&site, size).await,
            "waited" => waited(&site, size).await,
            "held" => held(&site, size).await,
            _ => names(&site, size).await,
        };
        let slope = before.map_or(String::new(), |(smaller, each)| {
            format!("{:.2}", (cost.each / each).ln() / (size as f64 / smaller as f64).ln())
        });
        let [client, server] =
            cost.shares.map_or_else(Default::default, |each| each.map(|one| format!("{one:.1}")));
        println!("{size:>9} {:>11.1} {slope:>7} {client:>9} {server:>9}  {}", cost.each, cost.note);
        before = Some((size, cost.each));
    }
}

fn main() {
    let (asked, parts) = (Asked::from_args(), PARTS.each_ref().map(|part| part.name));
    let full = asked.find(|word| word == "full").is_some();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for part in PARTS.iter().filter(|part| asked.wants(part.name, &parts)) {
        for kind in Site::KINDS.into_iter().filter(|kind| asked.wants(kind, &Site::KINDS)) {
            runtime.block_on(measure(kind, part, full));
        }
    }
}
