//! The waiters of this client: their entries are kept alive, and a watch wakes them.

mod queue;
mod ranges;
mod waiter;
mod watch;

pub(crate) use self::{
    queue::{WaiterEntry, Waiters},
    waiter::{AbandonedWaiter, EtcdWaiter},
    watch::Watch,
};
