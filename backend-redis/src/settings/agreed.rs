//! The settings on which all clients of a store agree.

use std::time::Duration;

/// The store's settings as the client knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    pub(crate) longest: Duration,
    pub(crate) quarantine: bool,
}
