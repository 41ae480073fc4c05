//! The keys of a store: their layout, their values, and conditions and reads for transactions.

pub(crate) mod entry;
pub(crate) mod layout;
mod ops;
pub(crate) mod reserved;
pub(crate) mod settings;
