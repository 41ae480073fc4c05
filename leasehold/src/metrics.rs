//! An observer that keeps metrics with the crate `metrics`, for any exporter that the application
//! installs. With the feature `metrics`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), leasehold::Error> {
//! # let client = leasehold::connect("memory:").await?;
//! // First install the exporter, such as that of metrics-exporter-prometheus.
//! let client = client.observed_by(std::sync::Arc::new(leasehold::metrics::Metrics::new()))?;
//! # Ok(())
//! # }
//! ```
//!
//! docs/observability.md in the repository has a dashboard and alert rules for these metrics.

use std::{collections::HashMap, fmt, sync::Arc};

use ::metrics::{
    Counter, Gauge, Histogram, Label, Unit, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram,
};
use lock_core::{
    Event, EventKind, LockName, LossReason, NotAcquired, Observer, OwnerLabel, ReleaseOutcome,
    RwLock,
};

/// Acquires that have ended, by `outcome`: `acquired`, `busy`, `quarantined`, `failed`,
/// `cancelled`. A wait that ended before the lock was free is `busy`.
pub const ACQUIRES: &str = "leasehold_acquires_total";
/// How long acquires took, in seconds, by `outcome` as [`ACQUIRES`].
pub const ACQUIRE_WAIT: &str = "leasehold_acquire_wait_seconds";
/// Acquires that are under way.
pub const WAITING: &str = "leasehold_waiting";
/// Locks that are held.
pub const HELD: &str = "leasehold_held";
/// How long locks were held, in seconds, by `outcome`: `released`, `not-held`, `failed`, `lost`,
/// `detached`.
pub const HOLD: &str = "leasehold_hold_seconds";
/// Renewals, by `outcome`: `renewed`, `failed`. A renewal without an answer for a sixth of the
/// lease has failed.
pub const RENEWALS: &str = "leasehold_renewals_total";
/// The remaining validity when a renewal was confirmed or failed, as a part of the lease, by
/// `outcome` as [`RENEWALS`]. Two thirds are normal; at 0 the lock is lost.
pub const RENEWAL_SLACK: &str = "leasehold_renewal_slack_ratio";
/// Locks that were lost, by `reason`: the words of [`LossReason::word`].
pub const LOSSES: &str = "leasehold_losses_total";
/// Attempts that the store refused because of a quarantine.
pub const QUARANTINES: &str = "leasehold_quarantine_answers_total";

/// Bucket bounds for the metrics in seconds: from the answer of a local store to a job of hours.
pub const SECONDS: &[f64] = &[
    0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0,
    1_000.0, 3_000.0, 10_000.0,
];
/// Bucket bounds for [`RENEWAL_SLACK`].
pub const RATIO: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];

/// Keeps metrics of the clients that it observes. The constants of this module are their names.
///
/// Each metric has the label `store`, the kind of store. The name of a lock is not a label, because
/// there may be as many names as orders; see [`with_lock_label`](Self::with_lock_label). Nor is the
/// client's own label, which by default differs for each process; see
/// [`with_client_label`](Self::with_client_label).
#[derive(Default)]
pub struct Metrics {
    lock: Option<LockLabel>,
    client: bool,
    series: RwLock<HashMap<Labels, Arc<Series>>>,
}

/// The labels that all series of some events have.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Labels {
    /// The kind of store.
    store: &'static str,
    /// What the function has made of the lock's name.
    lock: Option<String>,
    /// The client's label.
    client: Option<OwnerLabel>,
}

type LockLabel = Box<dyn Fn(&LockName) -> Option<String> + Send + Sync>;

impl Metrics {
    /// Metrics for the exporter that is installed at the first event. Install it before.
    #[must_use]
    pub fn new() -> Self {
        let seconds = Some(Unit::Seconds);
        describe_counter!(ACQUIRES, "Acquires that have ended.");
        histogram_of(ACQUIRE_WAIT, seconds, "How long acquires took.");
        describe_gauge!(WAITING, "Acquires that are under way.");
        describe_gauge!(HELD, "Locks that are held.");
        histogram_of(HOLD, seconds, "How long locks were held.");
        describe_counter!(RENEWALS, "Renewals.");
        let slack = "What was left of the validity at a renewal, as a part of the lease.";
        histogram_of(RENEWAL_SLACK, None, slack);
        describe_counter!(LOSSES, "Locks that were lost.");
        describe_counter!(QUARANTINES, "Attempts that the store answered by a quarantine.");
        Self::default()
    }

    /// Adds the label `lock` to all metrics. `label` makes its value from a lock's name; `None`
    /// adds no label.
    ///
    /// Each value makes about two hundred series, which stay for the life of the process. So return
    /// few different values, such as the part of the name before its first `/`. `label` is called
    /// for each event, where the event happens.
    #[must_use]
    pub fn with_lock_label<F>(mut self, label: F) -> Self
    where
        F: Fn(&LockName) -> Option<String> + Send + Sync + 'static,
    {
        self.lock = Some(Box::new(label));
        self
    }

    /// Adds the label `client` to all metrics: the label of the client, as
    /// [`ClientOptions::label`](crate::ClientOptions::label) or `label=` in the URL sets it.
    ///
    /// Each value makes about two hundred series. So set the labels of all clients, to few
    /// different values, such as the part of the application: the default label has the process id,
    /// and each start of a process would make new series.
    #[must_use]
    pub fn with_client_label(mut self) -> Self {
        self.client = true;
        self
    }

    fn series(&self, event: &Event<'_>) -> Arc<Series> {
        let lock = self.lock.as_ref().and_then(|label| label(event.name));
        let client = self.client.then(|| event.label.clone());
        let labels = Labels { store: event.store, lock, client };
        if let Some(series) = self.series.read().get(&labels) {
            return Arc::clone(series);
        }
        let mut all = self.series.write();
        let new = || Arc::new(Series::new(&labels));
        Arc::clone(all.entry(labels.clone()).or_insert_with(new))
    }
}

fn histogram_of(name: &'static str, unit: Option<Unit>, text: &'static str) {
    match unit {
        Some(unit) => describe_histogram!(name, unit, text),
        None => describe_histogram!(name, text),
    }
}

/// All series with these labels. They are made together: a counter that is made at its
/// first loss would not show that loss as an increase.
struct Series {
    acquires: Vec<(&'static str, Counter, Histogram)>,
    waiting: Gauge,
    held: Gauge,
    holds: Vec<(&'static str, Histogram)>,
    renewals: Vec<(&'static str, Counter, Histogram)>,
    losses: Vec<(LossReason, Counter)>,
    quarantines: Counter,
}

impl Series {
    fn new(of: &Labels) -> Self {
        let with = |more: Option<(&'static str, &'static str)>| {
            let mut labels = vec![Label::from_static_parts("store", of.store)];
            let lock = of.lock.as_deref().map(|lock| ("lock", lock));
            let client = of.client.as_ref().map(|client| ("client", client.as_str()));
            let own = lock.into_iter().chain(client);
            labels.extend(own.map(|(key, value)| Label::new(key, value.to_owned())));
            labels.extend(more.map(|(key, value)| Label::from_static_parts(key, value)));
            labels
        };
        let by = |outcome| with(Some(("outcome", outcome)));
        let both = |count: &'static str, measure: &'static str, outcome| {
            (outcome, counter!(count, by(outcome)), histogram!(measure, by(outcome)))
        };
        let acquires = ["acquired"].into_iter().chain(NotAcquired::WORDS);
        let hold = |outcome| (outcome, histogram!(HOLD, by(outcome)));
        let lost =
            |reason: LossReason| (reason, counter!(LOSSES, with(Some(("reason", reason.word())))));
        Self {
            acquires: acquires.map(|outcome| both(ACQUIRES, ACQUIRE_WAIT, outcome)).collect(),
            waiting: gauge!(WAITING, with(None)),
            held: gauge!(HELD, with(None)),
            holds: ["released", "not-held", "failed", "lost", "detached"].map(hold).into(),
            renewals: ["renewed", "failed"].map(|it| both(RENEWALS, RENEWAL_SLACK, it)).into(),
            losses: LossReason::ALL.map(lost).into(),
            quarantines: counter!(QUARANTINES, with(None)),
        }
    }

    fn acquire_ended(&self, outcome: &str, waited: f64) {
        self.waiting.decrement(1.0);
        count(&self.acquires, outcome, waited);
    }

    fn hold_ended(&self, outcome: &str, held: f64) {
        self.held.decrement(1.0);
        if let Some((_, holds)) = self.holds.iter().find(|(word, _)| *word == outcome) {
            holds.record(held);
        }
    }
}

fn count(of: &[(&'static str, Counter, Histogram)], outcome: &str, value: f64) {
    if let Some((_, counter, histogram)) = of.iter().find(|(word, ..)| *word == outcome) {
        counter.increment(1);
        histogram.record(value);
    }
}

impl Observer for Metrics {
    fn event(&self, event: &Event<'_>) {
        let series = self.series(event);
        match event.kind {
            EventKind::Requested => series.waiting.increment(1.0),
            EventKind::Acquired { waited, .. } => {
                series.acquire_ended("acquired", waited.as_secs_f64());
                series.held.increment(1.0);
            }
            EventKind::NotAcquired { why, waited, .. } => {
                series.acquire_ended(why.word(), waited.as_secs_f64());
            }
            EventKind::Renewed { slack, lease, .. } => {
                count(&series.renewals, "renewed", slack.div_duration_f64(lease));
            }
            EventKind::RenewalFailed { remaining, lease, .. } => {
                count(&series.renewals, "failed", remaining.div_duration_f64(lease));
            }
            EventKind::Lost { reason, held, .. } => {
                series.hold_ended("lost", held.as_secs_f64());
                if let Some((_, losses)) = series.losses.iter().find(|(known, _)| *known == reason)
                {
                    losses.increment(1);
                }
            }
            EventKind::Released { held, outcome, .. } => {
                let word = match outcome {
                    Ok(ReleaseOutcome::Released) => "released",
                    Ok(ReleaseOutcome::NotHeld) => "not-held",
                    Err(_) => "failed",
                };
                series.hold_ended(word, held.as_secs_f64());
            }
            EventKind::Detached { held, .. } => series.hold_ended("detached", held.as_secs_f64()),
            EventKind::Quarantined { .. } => series.quarantines.increment(1),
            _ => {}
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
