//! Waiters of SQLite and MySQL, whose queue is a table of entries.

mod entries;
mod waiter;

#[cfg(feature = "mysql")]
pub(crate) use self::waiter::Listening;
pub(crate) use self::{
    entries::{QueueEntries, QueueEntry},
    waiter::{CheckResult, Known, Queue, QueueWaiter},
};
