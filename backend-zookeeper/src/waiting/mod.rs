//! Waiters: their entries, and how they are woken.

mod queue;
mod waiter;

pub(crate) use self::{
    queue::{WaiterEntry, Waiters},
    waiter::{RefusedWaiter, ZooKeeperWaiter},
};
