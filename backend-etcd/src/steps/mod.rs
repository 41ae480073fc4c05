//! The operations of the trait, one module each.

pub(crate) mod acquire;
pub(crate) mod admin;
pub(crate) mod claim;
pub(crate) mod enqueue;
mod grant;
pub(crate) mod raise;
pub(crate) mod record;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod reown;
