//! Cores kept awake, and processor time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Keeps every core awake until it is dropped: an idle virtual CPU adds up to 70 µs to each round
/// trip, and that would be measured instead. The threads have the lowest priority, so that who has
/// something to do does it at once.
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

/// Processor time that a process has used, all its threads together.
#[must_use]
pub fn processor_time(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanos = threads.map(|thread| {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("schedstat"));
        // One that has ended meanwhile counts no more.
        stat.ok().and_then(|stat| stat.split(' ').next()?.parse::<u64>().ok()).unwrap_or_default()
    });
    Duration::from_nanos(nanos.sum())
}
