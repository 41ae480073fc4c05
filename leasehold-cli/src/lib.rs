//! The parts of the `leasehold` command: run a job under a distributed lock.
//!
//! This is a library only for tests and examples. The interface for users is the command: its
//! arguments ([`args`]), its exit codes ([`exit`]), the path of its default store ([`store`]), and
//! how it supervises the job ([`supervise`]).

mod actions;
pub mod args;
mod chosen_store;
mod ended;
pub mod exit;
mod json;
mod log;
mod show;
mod stderr;
pub mod store;
pub mod supervise;
mod sys;
mod tunables;

pub use actions::perform;
pub use show::print;
