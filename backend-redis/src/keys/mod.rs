//! Which keys there are, and in which slot of a cluster each is.

mod keys;
pub(crate) mod slots;

pub(crate) use self::keys::{Bucket, Keys};
