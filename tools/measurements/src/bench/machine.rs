//! Processors: kept awake while a benchmark runs, and how long processes have used them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Keeps every processor awake until it is dropped. An idle virtual processor needs up to 70 µs to
/// wake, and the benchmark would measure that with each round trip. The threads have the lowest
/// priority, so that they delay nobody else.
#[derive(Debug)]
pub struct Awake {
    on: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Awake {
    /// From now on.
    #[must_use]
    pub fn keep() -> Self {
        let on = Arc::new(AtomicBool::new(true));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..cores)
            .map(|_| {
                let on = on.clone();
                std::thread::spawn(move || {
                    rustix::process::nice(19).unwrap();
                    while on.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                })
            })
            .collect();
        Self { on, threads }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.on.store(false, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// Processor time that this process has used, all threads together.
#[must_use]
pub fn own_processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Processor time that the living threads of a process have used; 0 if the process has ended.
pub(crate) fn processor_time(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let nanos = threads.filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}
