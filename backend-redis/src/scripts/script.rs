//! A script and its hash.

use redis::Script as Hashed;

use super::{epoch::Layout, text::whole};

/// What a script of another crate that may grant begins with.
pub(crate) const COMMON: &str =
    "-- include epoch_arguments.lua\n-- include limits.lua\n-- include common.lua\n";

/// A script and its hash.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: String,
    pub(crate) hash: String,
    /// How it gets the epoch, if it may grant.
    pub(crate) epoch: Layout,
}

impl Script {
    pub(crate) fn new(script: &str, epoch: Layout) -> Self {
        let text = whole(script);
        Self { hash: Hashed::new(&text).get_hash().to_owned(), text, epoch }
    }
}
