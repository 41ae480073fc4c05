//! The layout: paths, names of entries, and the data of nodes.

pub(crate) mod data;
pub(crate) mod entry;
pub(crate) mod layout;
pub(crate) mod settings;
