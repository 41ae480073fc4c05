//! Instruments: cores kept awake, medians in slices, rates, processor time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;

/// Keeps every core awake until it is dropped: an idle virtual CPU adds up to 70 µs to each round
/// trip, and that would be measured instead. The threads have the lowest priority, so that who has
/// something to do does it at once.
pub(crate) struct Awake {
    on: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Awake {
    pub(crate) fn keep() -> Self {
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

/// The value below which `part` of the spans lie, in µs.
pub(crate) fn quantile(spans: &mut [Duration], part: f64) -> f64 {
    spans.sort_unstable();
    let at = ((spans.len() - 1) as f64 * part).round() as usize;
    spans[at].as_secs_f64() * 1e6
}

/// Something to be measured, called with the number of a task.
pub(crate) type Call = Box<dyn Fn(usize) -> BoxFuture<'static, ()> + Send + Sync>;

/// A kind of call under its label.
pub(crate) fn kind<F>(
    label: &'static str,
    call: impl Fn(usize) -> F + Send + Sync + 'static,
) -> (&'static str, Call)
where
    F: Future<Output = ()> + Send + 'static,
{
    (label, Box::new(move |task| Box::pin(call(task))))
}

/// Medians of calls one after the other, in µs. The kinds take turns in short slices, so that what
/// disturbs the machine disturbs all alike.
pub(crate) async fn latencies(kinds: &[(&str, Call)]) -> Vec<f64> {
    let mut spans = vec![Vec::new(); kinds.len()];
    for slice in 0..40 {
        for ((_, call), spans) in kinds.iter().zip(&mut spans) {
            for round in 0..150 {
                let start = Instant::now();
                call(0).await;
                // The first slice and the first rounds of each warm up.
                if slice > 0 && round >= 10 {
                    spans.push(start.elapsed());
                }
            }
        }
    }
    let medians: Vec<_> = spans.iter_mut().map(|spans| quantile(spans, 0.5)).collect();
    for ((label, _), micros) in kinds.iter().zip(&medians) {
        println!("{label:<46} {micros:>9.1} µs");
    }
    medians
}

/// How often per second 64 tasks together finish a call, each on its own name: medians of slices
/// taken in turn.
pub(crate) async fn rates(kinds: Vec<(&'static str, Call)>) -> Vec<f64> {
    const SLICE: Duration = Duration::from_millis(500);
    let kinds: Vec<_> = kinds.into_iter().map(|(label, call)| (label, Arc::new(call))).collect();
    let mut rates = vec![Vec::new(); kinds.len()];
    for _ in 0..7 {
        for ((_, call), rates) in kinds.iter().zip(&mut rates) {
            let (count, start) = (Arc::new(AtomicU64::new(0)), Instant::now());
            let tasks: Vec<_> = (0..64)
                .map(|task| {
                    let (count, call) = (count.clone(), call.clone());
                    tokio::spawn(async move {
                        while start.elapsed() < SLICE {
                            call(task).await;
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            rates.push(count.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64());
        }
    }
    let mut medians = Vec::new();
    for ((label, _), mut rates) in kinds.into_iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        medians.push(rates[rates.len() / 2]);
        println!("{label:<46} {:>9.0} /s", rates[rates.len() / 2]);
    }
    medians
}

/// Processor time that a process has used, all its threads together.
pub(crate) fn processor_time(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let nanos = threads.map(|thread| {
        let stat = std::fs::read_to_string(thread.unwrap().path().join("schedstat"));
        // One that has ended meanwhile counts no more.
        stat.ok().and_then(|stat| stat.split(' ').next()?.parse::<u64>().ok()).unwrap_or_default()
    });
    Duration::from_nanos(nanos.sum())
}
