//! Records faults and the nodes' writes, to explain a history that turns out to be wrong.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lock_core::{Env as _, Instant, SystemEnv};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    task::JoinSet,
};

/// How much is kept. Older records are dropped.
const MOST: usize = 100_000;

type Events = Arc<Mutex<VecDeque<(Instant, String)>>>;

/// Keeps faults and the nodes' writes, with the instant at which each was noticed.
#[derive(Default)]
pub(crate) struct Witness {
    events: Events,
    batched: Arc<AtomicU64>,
    watching: JoinSet<()>,
}

fn keep(events: &Events, text: String) {
    let mut events = events.lock().unwrap();
    if events.len() == MOST {
        events.pop_front();
    }
    events.push_back((SystemEnv.now(), text));
}

impl Witness {
    pub(crate) fn note(&self, text: impl Into<String>) {
        keep(&self.events, text.into());
    }

    /// Watches every write of a node's scripts, with the node's own clock. While the node is paused
    /// nothing arrives; after a restart the watch begins again.
    pub(crate) fn watch(&mut self, at: usize, address: SocketAddr) {
        let (events, batched) = (Arc::clone(&self.events), Arc::clone(&self.batched));
        self.watching.spawn(async move {
            loop {
                let ended = monitor(&events, &batched, at, address).await;
                keep(&events, format!("node {at}: not heard any more: {ended:?}"));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    }

    /// How many attempts of batches reached nodes, successful or not.
    pub(crate) fn batched(&self) -> u64 {
        self.batched.load(Ordering::Relaxed)
    }

    /// What happened from `from` to `until`, one line each.
    pub(crate) fn between(&self, from: Instant, until: Instant) -> String {
        let events = self.events.lock().unwrap();
        let there = events.iter().filter(|(at, _)| (from..=until).contains(at));
        there.map(|(at, text)| format!("    {}us {text}\n", at.as_nanos() / 1_000)).collect()
    }
}

async fn monitor(
    events: &Events,
    batched: &AtomicU64,
    at: usize,
    address: SocketAddr,
) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"MONITOR\r\n").await?;
    keep(events, format!("node {at}: heard from here on"));
    let mut lines = BufReader::new(stream).lines();
    while let Some(line) = lines.next_line().await? {
        let writes = ["\"SET\"", "\"DEL\"", "\"PEXPIRE\"", "\"HSET\""];
        if line.contains(" lua]") && writes.iter().any(|word| line.contains(word)) {
            // Only batches take a lock in this way.
            if line.contains("\"NX\"") {
                batched.fetch_add(1, Ordering::Relaxed);
            }
            keep(events, format!("node {at}: {}", line.trim_start_matches('+')));
        }
    }
    Ok(())
}
