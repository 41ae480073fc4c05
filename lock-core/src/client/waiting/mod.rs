//! Waiting: the tasks of one process share one place per name in the store's queue (L3, L4).

mod followed;
mod local_waiter;
mod quarantine;
mod worker;

pub(super) use self::{
    local_waiter::LocalWaiter,
    quarantine::{Limit, QuarantineWait},
};
