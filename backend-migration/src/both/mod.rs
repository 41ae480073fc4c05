//! Phase `Both`: a process holds a lock in both stores, or not at all.

mod acquire;
mod backend;
mod pair;
mod waiter;

pub(crate) use self::{acquire::Both, pair::Pair};
