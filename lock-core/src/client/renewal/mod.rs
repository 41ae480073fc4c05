//! Renewal: one task per client renews held locks, notices losses, and finishes calls whose callers
//! have gone.

mod batch;
mod renewer;
mod schedule;

pub(super) use self::{renewer::make_renewer, schedule::admit};
