//! The record of this process's phase: its name, and the task that keeps it in both stores.

mod keep;
mod uses;

pub(crate) use self::{
    keep::Record,
    uses::{Use, digests, is_record, records},
};
