//! Tasks that want the same name: which task gets it, how often, and how soon after its release.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::{Contender, Seen};

/// One hold of the lock.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The number of the task.
    pub task: usize,
    /// When the task had the lock, by [`clock`].
    pub held: Duration,
    /// When it began to release the lock, by [`clock`].
    pub freeing: Duration,
}

/// How fast tasks take turns.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long the tasks compete.
    pub span: Duration,
    /// How long a task holds the lock.
    pub hold: Duration,
    /// How long it pauses after its release.
    pub think: Duration,
}

impl Pace {
    /// Tasks that hold for no time and never pause.
    #[must_use]
    pub const fn fast(span: Duration) -> Self {
        Self { span, hold: Duration::ZERO, think: Duration::ZERO }
    }
}

/// A clock that all processes of a machine share.
#[must_use]
pub fn clock() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Lets `tasks` tasks, numbered from `first`, take turns on `name`. The contenders are shared out
/// among the tasks.
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

/// Counts the changes of holder, and sorts the turns by time. A task that takes its own lock again
/// hands nothing over. The time of a change is from the begin of a release until the next task has
/// the lock.
#[must_use]
pub fn seen(turns: &mut [Turn]) -> Seen {
    turns.sort_unstable_by_key(|turn| turn.held);
    let [first, .., last] = turns else { return Seen::default() };
    let span = last.held - first.held;
    let changes = turns.windows(2).filter(|pair| pair[0].task != pair[1].task);
    let took = changes.map(|pair| pair[1].held.saturating_sub(pair[0].freeing)).collect();
    Seen::new(took, span)
}
