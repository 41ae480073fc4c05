//! The trait [`Dialect`](crate::dialect::Dialect): its steps, and the statements of the queue.

mod backend;
mod queue;
mod record;
mod steps;
