//! Locks of leasehold over a quorum of independent Redis servers: Redlock, hardened.
pub mod clock;
pub mod token;
pub mod validity;
pub mod vote;

mod acquire;
mod backend;
mod ballot;
mod config;
mod guarantees;
mod operate;
mod peer;
mod quorum;
mod release;
mod renew;
mod scripts;
mod url;
mod wake;

pub use self::{config::RedlockBuilder, url::connect};
