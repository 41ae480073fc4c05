//! The waiters of this process, and the pushes that grant them the lock.

pub(crate) mod pushes;

pub(crate) use self::pushes::Pushes;
