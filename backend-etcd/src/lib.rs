//! Locks of leasehold in etcd: under way.
//!
//! **There is no backend here yet.** What is here are the parts that need no connection:
//! [`KeyLayout`], the keys shared with etcd's own tools, and [`Ledger`], which credits keepalive
//! replies to what was sent.

mod layout;
mod ledger;

pub use self::{
    layout::{KeyLayout, PlaceKey},
    ledger::{Credit, Ledger},
};
