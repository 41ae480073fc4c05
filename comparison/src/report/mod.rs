//! What a run came to: data, from which `show` makes the table and the page.

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

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Of leasehold.
    pub version: &'static str,
    /// What it was measured on.
    pub machine: Machine,
    /// Seconds that the run was to take.
    pub seconds: f64,
    /// Seconds that it took, without opening and closing the stores.
    pub took_seconds: f64,
    /// In the order in which they were named.
    pub stores: Vec<StoreReport>,
    /// Those that were asked for and are not there.
    pub absent: Vec<Absent>,
    /// Which store does best, where the rounds leave no doubt.
    pub rankings: Vec<Ranking>,
    /// What leasehold adds to what the stores cost anyway.
    pub ratios: Vec<Ratio>,
    /// What held under faults, where the results of such a run were opened.
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

    /// The same with what was seen under faults.
    #[must_use]
    pub fn with_proof(mut self, proof: Option<Proof>) -> Self {
        self.proof = proof;
        self
    }
}
