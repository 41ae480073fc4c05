//! Leases: the pool and the supply, and the stream that keeps them alive.

pub(crate) mod keepalive;
pub(crate) mod ledger;
mod pool;
mod supply;

pub(crate) use self::{keepalive::Keepalives, supply::Leases};
