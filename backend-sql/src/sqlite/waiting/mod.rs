//! How a client wakes the waiter of another process.

pub(super) mod bell;
