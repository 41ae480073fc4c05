//! What an observer, metrics and `tracing` cost: one task acquires and releases a free lock, in
//! memory and on Redis.
//!
//! Each kind runs in a process of its own, since a subscriber and an exporter serve a whole
//! process. The processes take turns in short slices, round after round. The figure to read is the
//! median of the rounds' ratios.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold::{Event, LockClient, metrics::Metrics};
use measurements::bench::{Site, median, own_processor_time};
use metrics_exporter_prometheus::PrometheusBuilder;
use tracing_subscriber::filter::LevelFilter;

/// All ratios are to the first. The second is the same as the first, and shows how far a ratio is
/// due to chance.
const KINDS: [&str; 6] = ["nothing", "nothing again", "observer", "metrics", "info", "debug"];
const ROUNDS: usize = 300;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match &args[..] {
        [_, flag, kind, url] if flag == "--child" => child(kind, url),
        _ => tokio::runtime::Runtime::new().unwrap().block_on(async {
            compare("memory", "memory:", Duration::from_millis(20));
            let site = Site::start("redis").await;
            compare("Redis", site.url(), Duration::from_millis(40));
        }),
    }
}

/// The main of a child process. Each line that it reads is the length of a slice in ms. It answers
/// with the number of pairs, and the time that they took, in ns: by the clock, and of the
/// processor.
fn child(kind: &str, url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let subscribe = |level| {
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::sink).init();
    };
    runtime.block_on(async {
        let client = leasehold::connect(url).await.unwrap();
        let client = match kind {
            "observer" => {
                let count = AtomicU64::new(0);
                let counts = move |_: &Event<'_>| _ = count.fetch_add(1, Ordering::Relaxed);
                client.observed_by(Arc::new(counts)).unwrap()
            }
            "metrics" => {
                PrometheusBuilder::new().install_recorder().unwrap();
                client.observed_by(Arc::new(Metrics::new())).unwrap()
            }
            "info" => {
                subscribe(LevelFilter::INFO);
                client
            }
            "debug" => {
                subscribe(LevelFilter::DEBUG);
                client
            }
            _ => client,
        };
        for line in std::io::stdin().lines() {
            let span = Duration::from_millis(line.unwrap().parse().unwrap());
            let (pairs, wall, busy) = slice(&client, span).await;
            println!("{pairs} {} {}", wall.as_nanos(), busy.as_nanos());
        }
    });
}

async fn slice(client: &LockClient, span: Duration) -> (u64, Duration, Duration) {
    let (began, busy, mut pairs) = (Instant::now(), own_processor_time(), 0_u64);
    while began.elapsed() < span {
        for _ in 0..16 {
            client.lock("own").acquire().await.unwrap().release().await.unwrap();
        }
        pairs += 16;
    }
    (pairs, began.elapsed(), own_processor_time() - busy)
}

struct Contender {
    process: Child,
    stdin: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Contender {
    fn start(kind: &str, url: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--child", kind, url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, stdin, answers }
    }

    /// One slice: the time of a pair in µs, by the clock and of the processor.
    fn slice(&mut self, span: Duration) -> [f64; 2] {
        writeln!(self.stdin, "{}", span.as_millis()).unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let numbers: Vec<f64> =
            line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        [1, 2].map(|at| numbers[at] / numbers[0] / 1000.0)
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn compare(store: &str, url: &str, span: Duration) {
    let mut contenders = KINDS.map(|kind| Contender::start(kind, url));
    let mut rounds = vec![[[0.0; 2]; KINDS.len()]; ROUNDS];
    // The first round warms up.
    for round in 0..=ROUNDS {
        // Each round begins with another contender.
        for at in (0..KINDS.len()).map(|at| (at + round) % KINDS.len()) {
            let took = contenders[at].slice(span);
            if round > 0 {
                rounds[round - 1][at] = took;
            }
        }
    }
    println!(
        "\n{store:<16} {:>10} {:>7}   {:>13} {:>7}",
        "µs a pair", "ratio", "processor µs", "ratio"
    );
    for (at, kind) in KINDS.iter().enumerate() {
        let of = |what: usize| median(rounds.iter().map(|round| round[at][what]).collect());
        let ratio =
            |what| median(rounds.iter().map(|round| round[at][what] / round[0][what]).collect());
        println!(
            "{kind:<16} {:>10.3} {:>7.3}   {:>13.3} {:>7.3}",
            of(0),
            ratio(0),
            of(1),
            ratio(1)
        );
    }
}
