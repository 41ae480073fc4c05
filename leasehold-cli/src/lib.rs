//! The parts of the `leasehold` command: run a job under a distributed lock.
//!
//! This is a library only for tests and examples. The interface for users is the command: its
//! arguments ([`args`]), its exit codes ([`exit`]), the path of its default store ([`store`]), and
//! how it supervises the job ([`supervise`]).

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the leasehold command needs Linux: what ends a job together with its supervisor \
     (parent-death signals, child subreapers, /proc) is not there elsewhere; the library \
     crates do not need it"
);

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
mod tunables;

pub use actions::perform;
pub use show::print;
