//! Waiters of SQLite and MySQL, whose queue is a table of entries.

mod entries;
mod waiter;

pub(crate) use self::{
    entries::{QueueEntries, QueueEntry},
    waiter::{CheckResult, Known, Listening, Queue, QueueWaiter},
};
