//! What servers need of this machine: accounts, ports, programs, certificates, and a session whose
//! end ends them.

pub(crate) mod account;
pub mod ports;
pub mod programs;
pub(crate) mod session;
pub mod tls;
pub mod tree;
pub mod wait;
