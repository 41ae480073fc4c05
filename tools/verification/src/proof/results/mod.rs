//! The results of many runs: figures, tables, a page.

pub(crate) mod page;
pub(crate) mod report;
pub(crate) mod result;
pub(crate) mod tables;
