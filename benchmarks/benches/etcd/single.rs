//! One lock that nobody else wants.

use std::time::Instant;

use benchmarks::bare;
use conformance_tests::kit::Etcd;

use crate::{median, peers};

pub(crate) const ROUNDS: usize = 40;
pub(crate) const TIMES: usize = 25;
pub(crate) const VALUE: &str = bare::Etcd::VALUE;

#[derive(Default)]
struct Figures {
    get: Vec<f64>,
    put: Vec<f64>,
    two: Vec<f64>,
    acquire: Vec<f64>,
    both: Vec<f64>,
    plain_acquire: Vec<f64>,
    plain_both: Vec<f64>,
}

pub(crate) async fn run(etcd: &Etcd) {
    let address = peers::address(etcd);
    let (client, ours) = (peers::plain(&address).await, peers::ours(&address).await);
    let floor = bare::Etcd(client.clone());
    let mut all = Figures::default();
    let mut proposals = (0.0, 0.0);
    for round in 0..=ROUNDS {
        let mut one = Figures::default();
        for _ in 0..TIMES {
            let began = Instant::now();
            client.kv_client().get("bare", None).await.unwrap();
            one.get.push(micros(began));
        }
        // As every write here, each comes upon one before it.
        for _ in 0..TIMES {
            let began = Instant::now();
            floor.clone().put().await;
            one.put.push(micros(began));
        }
        for _ in 0..TIMES {
            let began = Instant::now();
            floor.clone().two_transactions().await;
            one.two.push(micros(began));
        }
        let before = applied(etcd).await;
        for _ in 0..TIMES {
            let began = Instant::now();
            let guard = ours.lock("job").acquire().await.unwrap();
            one.acquire.push(micros(began));
            guard.release().await.unwrap();
            one.both.push(micros(began));
        }
        let middle = applied(etcd).await;
        for _ in 0..TIMES {
            let began = Instant::now();
            let lease = peers::lock(&client, "plain").await;
            one.plain_acquire.push(micros(began));
            peers::unlock(&client, lease).await;
            one.plain_both.push(micros(began));
        }
        // The first round warms up.
        if round == 0 {
            continue;
        }
        proposals.0 += middle - before;
        proposals.1 += applied(etcd).await - middle;
        all.get.push(median(one.get));
        all.put.push(median(one.put));
        all.two.push(median(one.two));
        all.acquire.push(median(one.acquire));
        all.both.push(median(one.both));
        all.plain_acquire.push(median(one.plain_acquire));
        all.plain_both.push(median(one.plain_both));
    }
    // The rounds' ratios: what disturbs the machine disturbs a whole round alike.
    let ratio =
        |of: &[f64], to: &[f64]| median(of.iter().zip(to).map(|(of, to)| of / to).collect());
    let ratios = [(&all.acquire, &all.put), (&all.both, &all.two)];
    let [of_put, of_two] = ratios.map(|(of, to)| ratio(of, to));
    let ratios = [(&all.plain_acquire, &all.acquire), (&all.plain_both, &all.both)];
    let [plain_of_ours, plain_both_of_ours] = ratios.map(|(of, to)| ratio(of, to));
    let [get, put, two] = [all.get, all.put, all.two].map(median);
    let [acquire, both] = [all.acquire, all.both].map(median);
    let [plain_acquire, plain_both] = [all.plain_acquire, all.plain_both].map(median);
    let times = (ROUNDS * TIMES) as f64;
    println!("uncontended, medians of {ROUNDS} rounds of {TIMES}, and of their ratios");
    println!("  get, a read by majority      {get:8.0} µs");
    println!("  put                          {put:8.0} µs");
    println!("  two bare transactions        {two:8.0} µs");
    println!("  acquire                      {acquire:8.0} µs  {of_put:5.2} x a put");
    println!("  acquire + release            {both:8.0} µs  {of_two:5.2} x two transactions");
    println!("  plain: acquire               {plain_acquire:8.0} µs  {plain_of_ours:5.2} x ours");
    println!("  plain: acquire + release     {plain_both:8.0} µs  {plain_both_of_ours:5.2} x ours");
    println!(
        "  log entries per lock         {:8.2}     plain: {:.2}",
        proposals.0 / times,
        proposals.1 / times
    );
}

pub(crate) fn micros(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e6
}

/// How many log entries the member has carried out.
async fn applied(etcd: &Etcd) -> f64 {
    etcd.members()[0].metric("etcd_server_proposals_applied_total").await.unwrap()
}
