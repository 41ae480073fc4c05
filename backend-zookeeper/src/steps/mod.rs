//! The steps of the protocol: each is a method of the trait, or a part of several.

pub(crate) mod acquire;
pub(crate) mod admin;
pub(crate) mod claim;
pub(crate) mod enqueue;
mod grant;
pub(crate) mod init;
pub(crate) mod raise;
pub(crate) mod record;
pub(crate) mod release;
pub(crate) mod renew;
mod sweep;
#[cfg(test)]
mod tests;
mod view;
