//! The trait [`Dialect`](crate::dialect::Dialect): its steps, the statements of the queue, waiters,
//! `init`.

mod backend;
mod init;
mod queue;
mod record;
mod waiter;
