//! Leases: the pool, the supply for the steps, and the stream of keepalives.

mod keepalive;
mod pool;
mod supply;

pub(crate) use self::{keepalive::Keepalives, supply::Leases};
