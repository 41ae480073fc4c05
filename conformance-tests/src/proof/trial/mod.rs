//! One run of one store under one fault, and what it has shown.

pub(crate) mod findings;
pub(crate) mod run;
pub(crate) mod script;
