//! Waiters of this client: they keep their entries alive, and a watch wakes them.

mod names;
mod queue;
mod waiter;
mod watch;

pub(crate) use self::{
    queue::{WaiterEntry, Waiters},
    waiter::{EtcdWaiter, RefusedWaiter},
    watch::Watch,
};
