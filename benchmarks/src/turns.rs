//! Many tasks on one name: who gets it, how often, and how soon after its release.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::{Contender, Seen};

/// When a task held the lock, and when it began to give it back.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Which task.
    pub task: usize,
    /// By [`clock`].
    pub held: Duration,
    /// By [`clock`].
    pub freeing: Duration,
}

/// How long tasks compete, how long each holds, and how long it thinks before the next time.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// All of it.
    pub span: Duration,
    /// With the lock.
    pub hold: Duration,
    /// Without it.
    pub think: Duration,
}

impl Pace {
    /// Tasks that do nothing but take turns.
    #[must_use]
    pub const fn fast(span: Duration) -> Self {
        Self { span, hold: Duration::ZERO, think: Duration::ZERO }
    }
}

/// A clock that processes of one machine share.
#[must_use]
pub fn clock() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Lets tasks, numbered from `first`, take turns: the contenders one each, or all by a single one.
pub async fn compete(
    contenders: &[Contender],
    tasks: usize,
    first: usize,
    name: &str,
    pace: Pace,
) -> Vec<Turn> {
    let (name, start): (Arc<str>, _) = (name.into(), Instant::now());
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let contender = contenders[task % contenders.len()].clone();
        let name = Arc::clone(&name);
        running.spawn(async move {
            let mut turns = Vec::new();
            while start.elapsed() < pace.span {
                turns.extend(contender.turn(&name, first + task, pace.hold).await);
                if !pace.think.is_zero() {
                    tokio::time::sleep(pace.think).await;
                }
            }
            turns
        });
    }
    running.join_all().await.concat()
}

/// Changes of holder: a task that takes its own lock again hands nothing over. The time of one is from the
/// begin of a release to the next one's turn.
#[must_use]
pub fn seen(turns: &mut [Turn]) -> Seen {
    turns.sort_unstable_by_key(|turn| turn.held);
    let [first, .., last] = turns else { return Seen::default() };
    let span = last.held - first.held;
    let changes = turns.windows(2).filter(|pair| pair[0].task != pair[1].task);
    let took = changes.map(|pair| pair[1].held.saturating_sub(pair[0].freeing)).collect();
    Seen::new(took, span)
}
