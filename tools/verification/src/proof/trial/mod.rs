//! One run of one store under one fault, and its data.

pub(crate) mod fault_run;
pub(crate) mod findings;
pub(crate) mod run;
