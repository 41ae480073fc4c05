//! What a client does with a lock: acquire, renew, release, and an operator's questions.

pub(crate) mod acquire;
pub(crate) mod admin;
pub(crate) mod free;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod vote_record;
