//! How much a run tries.

use std::time::Duration;

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    pub(crate) processes: u32,
    /// Tasks of each process.
    pub(crate) tasks: u32,
    /// Operations of each task, at least: a task continues until the fault is over.
    pub(crate) operations: u32,
    pub(crate) names: u32,
    /// How long a waiter waits. After that it counts as not served.
    pub(crate) wait: Duration,
    /// The longest pause of a task between two operations.
    pub(crate) rest: Duration,
    /// Whether other stores are tried at the same time. Then the machine may delay a holder after
    /// it has checked its guard, as a pause does, and data without a fence may lose an update
    /// without an injected fault.
    pub(crate) crowded: bool,
    /// How much longer than promised a busy machine may take. The results have the real times.
    pub(crate) tolerance: Duration,
    /// For how long to repeat all faults of a store with other seeds; `None`: each fault once.
    pub(crate) lasts: Option<Duration>,
}

impl Profile {
    /// For the tests: seconds per fault.
    pub(crate) const QUICK: Self = Self {
        name: "quick",
        processes: 3,
        tasks: 2,
        operations: 10,
        names: 3,
        wait: Duration::from_secs(40),
        rest: Duration::from_millis(10),
        crowded: false,
        tolerance: Duration::from_secs(2),
        lasts: None,
    };

    /// For hours.
    pub(crate) const SOAK: Self = Self {
        name: "soak",
        processes: 3,
        tasks: 2,
        operations: 50,
        names: 3,
        wait: Duration::from_secs(60),
        rest: Duration::from_millis(120),
        crowded: true,
        // The run has a fraction of a processor.
        tolerance: Duration::from_secs(5),
        lasts: Some(Duration::from_secs(30 * 60)),
    };
}
