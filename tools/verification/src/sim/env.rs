//! [`Env`] for a simulated process: its clock, its random numbers and its tasks.

use std::{
    sync::Arc,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use lock_core::{BoxFuture, Env, Instant, NoRuntime};

use super::world::{NET, Process, World};

/// The clocks and the runtime of one simulated process.
#[derive(Clone, Debug)]
pub struct SimEnv {
    world: World,
    process: Process,
    /// The time on its clock when the world began.
    offset: u64,
    /// By how many millionths its clock is too fast.
    drift: i64,
    /// For a mutant: the clock stands still while the process is paused.
    stands_still: bool,
    /// By how much the wall clock was stepped, in microseconds.
    wall_step: Arc<AtomicI64>,
}

impl SimEnv {
    /// The world's own clock.
    #[must_use]
    pub fn of_world(world: &World) -> Self {
        Self {
            world: world.clone(),
            process: NET,
            offset: 0,
            drift: 0,
            stands_still: false,
            wall_step: Arc::default(),
        }
    }

    /// A process whose clock has a random offset, and a random drift within the margin of the core.
    #[must_use]
    pub fn of_process(world: &World, process: Process, stands_still: bool) -> Self {
        let offset = world.roll(1 << 50);
        let drift = world.roll(8_001) as i64 - 4_000;
        Self { process, offset, drift, stands_still, ..Self::of_world(world) }
    }

    /// Steps the wall clock.
    pub fn step_wall(&self, micros: i64) {
        self.wall_step.fetch_add(micros, Ordering::Relaxed);
    }

    /// Converts a span on this process's clock to the world's time.
    #[must_use]
    pub fn in_world(&self, span: Duration) -> Duration {
        let nanos = span.as_nanos() * 1_000_000 / (1_000_000 + self.drift) as u128;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Env for SimEnv {
    fn now(&self) -> Instant {
        let mut now = self.world.now();
        if self.stands_still {
            now = now.saturating_sub(self.world.stopped(self.process));
        }
        let gained = i128::from(now) * i128::from(self.drift) / 1_000_000;
        Instant::from_nanos(self.offset + (i128::from(now) + gained) as u64)
    }

    fn wall_micros(&self) -> u64 {
        let step = self.wall_step.load(Ordering::Relaxed);
        (1_800_000_000_000_000 + (self.world.now() / 1_000) as i64 + step) as u64
    }

    fn random(&self) -> u128 {
        u128::from(self.world.bits()) << 64 | u128::from(self.world.bits())
    }

    fn spawn(&self, task: BoxFuture) -> Result<(), NoRuntime> {
        if self.world.spawn(self.process, task) { Ok(()) } else { Err(NoRuntime) }
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture {
        let span = self.in_world(at.since(self.now()));
        let end = self.world.now().saturating_add(span.as_nanos() as u64);
        // Rounded up, so that the clock has reached `at` when the timer fires.
        Box::pin(self.world.sleep_until(end.saturating_add(2)))
    }

    fn sleep(&self, span: Duration) -> BoxFuture {
        self.sleep_until(self.now() + span)
    }
}
