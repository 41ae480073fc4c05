//! The waiters of this process: each hears by push that it has the lock.

pub(crate) mod pushes;

pub(crate) use self::pushes::Pushes;
