//! The operations: acquire, renew, release, and those of operators.

pub(crate) mod acquire;
pub(crate) mod admin;
pub(crate) mod free;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod vote_record;
