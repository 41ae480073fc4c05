//! How much is tried.

use std::time::Duration;

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    pub(crate) processes: u32,
    /// Tasks of each process.
    pub(crate) tasks: u32,
    /// Operations of each task, at least: it goes on until the fault is over.
    pub(crate) operations: u32,
    pub(crate) names: u32,
    /// How long a waiter waits. A waiter that waits for longer was not served.
    pub(crate) wait: Duration,
    /// What a task rests at most between two operations.
    pub(crate) rest: Duration,
    /// Whether other stores are tried at the same time: then a holder may be held up after it has looked at
    /// its guard, as by a pause, and data without a fence may lose an update with no fault of ours.
    pub(crate) crowded: bool,
    /// What a loaded machine may take longer than was promised. What it did take is in the results.
    pub(crate) tolerance: Duration,
    /// How often a fault is tried that must be seen to break something.
    pub(crate) tries: u32,
    /// How long the faults of a store are gone through again and again, with other seeds; `None` for
    /// once.
    pub(crate) lasts: Option<Duration>,
}

impl Profile {
    /// For the gate: seconds per fault.
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
        tries: 8,
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
        // With a fraction of a processor.
        tolerance: Duration::from_secs(5),
        tries: 20,
        lasts: Some(Duration::from_secs(30 * 60)),
    };
}
