//! Calls to etcd: one connection to one member at a time, time limits, conversion of errors.

mod body;
mod calls;
mod error;
mod login;
mod members;
mod socket;
mod txn;

pub(crate) use self::{
    calls::{Lease, Rpc, whole_seconds},
    error::{Failure, failure, incomplete, late},
    login::Login,
    members::Members,
    txn::{gets, put, revision},
};
