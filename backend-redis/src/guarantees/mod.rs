//! The guarantees of a store, derived from its servers' settings.

pub(crate) mod failover;
pub(crate) mod promises;
mod tracker;

pub(crate) use self::tracker::GuaranteeTracker;
