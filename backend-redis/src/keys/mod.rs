//! The keys of the store, and the slot of each in a cluster.

mod keys;
pub(crate) mod slots;

pub(crate) use self::keys::{Bucket, Content, Keys};
