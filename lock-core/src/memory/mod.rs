//! The reference backend: locks in this process's memory. Read `store` and `entry` to understand
//! the contract.

mod backend;
mod entry;
mod records;
mod store;

pub use self::backend::Memory;
