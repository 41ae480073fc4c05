//! The results of a run as data. `show` makes the table and the page of them.

mod figures;
mod machine;
mod proof;
mod ranking;
mod ratios;

use std::sync::Arc;

use serde::Serialize;

pub(crate) use self::proof::{OfFault, OfStore, Timeline};
pub use self::{
    figures::{Figure, Missing, StoreReport},
    machine::Machine,
    proof::Proof,
    ranking::Ranking,
    ratios::{Ratio, Target},
};
use self::{ranking::rankings, ratios::ratios};
use crate::{local::Absent, plan::Plan, run::Measured, store::Subject};

/// The results of a run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The version of leasehold.
    pub version: &'static str,
    /// The machine.
    pub machine: Machine,
    /// How long the run should take, in seconds.
    pub seconds: f64,
    /// How long it took, in seconds, without the opening and closing of the stores.
    pub took_seconds: f64,
    /// The stores, in the order of the command line.
    pub stores: Vec<StoreReport>,
    /// The requested stores that could not be started.
    pub absent: Vec<Absent>,
    /// The order of the stores by some measurements.
    pub rankings: Vec<Ranking>,
    /// The cost of leasehold compared with the floors.
    pub ratios: Vec<Ratio>,
    /// The results under faults, if a file with such results was read.
    pub proof: Option<Proof>,
}

impl Report {
    pub(crate) fn new(
        machine: Machine,
        subjects: &[Arc<Subject>],
        plan: &Plan,
        absent: Vec<Absent>,
        measured: Measured,
    ) -> Self {
        let stores = subjects.iter().zip(measured.stores);
        let stores: Vec<_> =
            stores.map(|(subject, measured)| StoreReport::new(subject, measured)).collect();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            machine,
            seconds: plan.span().as_secs_f64(),
            took_seconds: measured.took.as_secs_f64(),
            rankings: rankings(&stores),
            ratios: ratios(&stores),
            stores,
            absent,
            proof: None,
        }
    }

    /// Adds the results under faults.
    #[must_use]
    pub fn with_proof(mut self, proof: Option<Proof>) -> Self {
        self.proof = proof;
        self
    }
}
