//! The keys of a namespace: their layout, their values, and operations on them.

pub(crate) mod entry;
pub(crate) mod layout;
mod ops;
pub(crate) mod seats;
pub(crate) mod settings;
