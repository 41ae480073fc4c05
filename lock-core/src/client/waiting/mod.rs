//! Waiting: the tasks of one process share one entry per name in the store's queue (L3, L4).
//! `worker` is the main file.

mod awaited_release;
mod local_waiter;
mod quarantine;
mod store_entry;
mod worker;

pub(super) use self::{
    local_waiter::LocalWaiter,
    quarantine::{Limit, QuarantineWait},
};
