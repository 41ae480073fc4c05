//! Phase `Both`: a lock is held in both stores or not at all.

mod acquire;
mod backend;
mod pair;
mod waiter;

pub(crate) use self::acquire::Both;
