//! The processes that lock, what they are told and what they say, and the data that the locks protect.

pub(crate) mod composed;
pub(crate) mod part;
pub(crate) mod record;
pub(crate) mod registers;
pub(crate) mod workload;
