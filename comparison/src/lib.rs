//! Measures lock stores side by side, for people who are deciding between them.
//!
//! All stores are measured in one run, in turns: each round makes every measurement on every store, in
//! an order that rotates, so that what else the machine does falls on all alike. The first round warms
//! up and is thrown away. Every figure stands beside the *floors* of the same store in the same run:
//! its cheapest round trip, its cheapest write and the barest lock, made by the store's own client
//! without leasehold.
//!
//! Besides, holders are killed and cut off, and many locks are held, as far as time allows.

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

/// What is compared, and how.
pub struct Comparison {
    stores: Vec<Store>,
    plan: Plan,
    absent: Vec<Absent>,
    holder: Option<Holder>,
}

impl Comparison {
    /// Of these stores.
    #[must_use]
    pub fn new(stores: Vec<Store>, plan: Plan) -> Self {
        Self { stores, plan, absent: Vec::new(), holder: None }
    }

    /// Stores that the report says are not there (default: none).
    #[must_use]
    pub fn absent(mut self, absent: Vec<Absent>) -> Self {
        self.absent = absent;
        self
    }

    /// What holds a lock in a process of its own, to be killed (default: nobody, and it is not
    /// measured).
    #[must_use]
    pub fn holder(mut self, holder: Option<Holder>) -> Self {
        self.holder = holder;
        self
    }

    /// Measures. Bounded in time by the plan, and in load by a number of tasks and names that does
    /// not depend on the stores. `None` if `stop` was ready before the end.
    ///
    /// # Errors
    /// `InvalidInput` for no store, one that is named twice, or one in which locks are held: a store
    /// in use is not to be loaded. Otherwise as the own ones of a store that never granted
    /// anything; where one fails in between, the report says so. Nothing is left held in any of them.
    ///
    /// *Cancel safety*: what is held when the future is dropped is given back in the background;
    /// what the floors wrote stays. `stop` leaves nothing.
    pub async fn run(
        self,
        watch: &mut dyn Watch,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<Report>, Error> {
        // Before there is a load of our own.
        let (machine, mut subjects) = (Machine::here(), Vec::new());
        let measured = tokio::select! {
            biased;
            () = stop => None,
            measured = self.open_and_measure(&mut subjects, watch) => Some(measured),
        };
        futures_util::future::join_all(subjects.iter().map(|subject| subject.close())).await;
        let Some(measured) = measured else { return Ok(None) };
        Ok(Some(Report::new(machine, &subjects, &self.plan, self.absent, measured?)))
    }

    async fn open_and_measure(
        &self,
        subjects: &mut Vec<Arc<Subject>>,
        watch: &mut dyn Watch,
    ) -> Result<run::Measured, Error> {
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
        run::run(subjects, self.holder.as_ref(), self.plan, watch).await
    }
}
