//! The client processes, their messages to and from the parent, and the data that the locks
//! protect.

pub(crate) mod composed;
mod hand_over;
pub(crate) mod name_records;
pub(crate) mod process;
pub(crate) mod record;
pub(crate) mod registers;
mod waiting;
pub(crate) mod workload;
