//! The trait `Backend`, one file per operation.

pub(crate) mod admin;
mod backend;
pub(crate) mod batch;
mod heartbeat;
mod record;
mod renew;
mod reown;
mod waiter;

pub(crate) use self::backend::Redis;
