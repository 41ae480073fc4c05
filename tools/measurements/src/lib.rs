//! Measures lock stores side by side, for people who choose a store.
//!
//! One run measures all stores in turn. Each round makes every measurement on every store, in an
//! order that rotates, so that other work on the machine disturbs all stores alike. The first round
//! warms up and does not count. The report shows each figure beside the *floors* of the same store
//! in the same run: its cheapest round trip, its cheapest write, and the bare lock, through the
//! store's own client without leasehold.
//!
//! If there is time, the run also kills holders, cuts them off from the store, and holds many
//! locks.

#[cfg(feature = "benches")]
pub mod bench;
mod floor;
mod local;
mod measure;
mod measurement;
mod plan;
mod report;
mod run;
mod sample;
mod show;
mod store;

use std::{future::Future, sync::Arc};

use lock_core::{Error, ErrorKind};

use self::store::Subject;
pub use self::{
    floor::Setting,
    local::{Absent, Local},
    measure::Holder,
    measurement::Measure,
    plan::Plan,
    report::{Figure, Machine, Missing, Proof, Ranking, Ratio, Report, StoreReport, Target},
    run::Watch,
    sample::{QUANTILES, Sample},
    store::{Store, embedded},
};

/// A comparison: the stores, and how to measure them.
pub struct Comparison {
    stores: Vec<Store>,
    plan: Plan,
    absent: Vec<Absent>,
    holder: Option<Holder>,
}

impl Comparison {
    /// A comparison of these stores.
    #[must_use]
    pub fn new(stores: Vec<Store>, plan: Plan) -> Self {
        Self { stores, plan, absent: Vec::new(), holder: None }
    }

    /// Stores that could not be started; the report names them (default: none).
    #[must_use]
    pub fn absent(mut self, absent: Vec<Absent>) -> Self {
        self.absent = absent;
        self
    }

    /// The program that holds a lock in a process of its own, to be killed (default: none, and this
    /// is not measured).
    #[must_use]
    pub fn holder(mut self, holder: Option<Holder>) -> Self {
        self.holder = holder;
        self
    }

    /// Runs the comparison. The plan limits the time. The number of tasks and names does not depend
    /// on the stores. Returns `None` if `stop` was ready before the end.
    ///
    /// # Errors
    /// `InvalidInput` if there is no store, if one is named twice, or if somebody holds a lock in
    /// one: a comparison must not load a store in use. If a store never granted a lock, the store's
    /// own error; if it fails later, the report says so. No lock is left held.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, locks are released in the background, but the data of the floors
    /// stays. `stop` leaves nothing.
    pub async fn run(
        self,
        watch: &mut dyn Watch,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<Report>, Error> {
        // Read before this run loads the machine.
        let (machine, mut subjects) = (Machine::here(), Vec::new());
        let mut stop = std::pin::pin!(stop);
        let (opened, is_stopped) = {
            let mut open = std::pin::pin!(self.open(&mut subjects));
            tokio::select! {
                biased;
                // What a store has been asked for might come after its removal: so the stores are
                // opened first.
                () = &mut stop => (open.await, true),
                opened = &mut open => (opened, false),
            }
        };
        let measured = match opened {
            Err(error) => Some(Err(error)),
            Ok(()) if is_stopped => None,
            Ok(()) => tokio::select! {
                biased;
                () = stop => None,
                measured = run::run(&subjects, self.holder.as_ref(), self.plan, watch) => {
                    Some(measured)
                }
            },
        };
        futures_util::future::join_all(subjects.iter().map(|subject| subject.close())).await;
        let Some(measured) = measured else { return Ok(None) };
        Ok(Some(Report::new(machine, &subjects, &self.plan, self.absent, measured?)))
    }

    async fn open(&self, subjects: &mut Vec<Arc<Subject>>) -> Result<(), Error> {
        if self.stores.is_empty() {
            let message = "no store is named; there must be one or more";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        for (at, store) in self.stores.iter().enumerate() {
            if self.stores[..at].iter().any(|other| other.url == store.url) {
                let message = format!("{} is named twice; it must be named once", store.url);
                return Err(Error::new(ErrorKind::InvalidInput, message));
            }
            subjects.push(Arc::new(Subject::open(store.clone()).await?));
        }
        Ok(())
    }
}
