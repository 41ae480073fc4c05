//! What wakes a waiter: bells.

mod bells;
mod holds;
mod session;

pub(super) use self::{bells::Bells, holds::Holds, session::BELL};
