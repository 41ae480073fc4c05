//! Locks of leasehold over a quorum of independent Redis servers: Redlock, hardened.
//! Each is Redis 7.0 or later, or Valkey 7.2 or later, as for `backend_redis`.
//!
//! A lock is held by whom a majority of *all* nodes keeps it for. Every operation asks the nodes at
//! once and answers as soon as a majority is certain either way; who is late is finished with behind:
//! what a failed attempt was given there is taken back. A node that does not answer in time is not
//! waited for any more until it has answered a probe. Redlock is antirez's; what is done about each
//! published objection to it:
//!
//! - *A node restarts and has forgotten.* It is in quarantine for one longest lease, and a node in
//!   quarantine does not vote.
//! - *A node's clock jumps.* Every reply carries the node's clock. A node that may be further than the
//!   clock bound from the median, or whose clock went back, has no vote, and its renewals do not
//!   count. Twice the bound is taken off every lease's validity.
//! - *No fencing.* The client proposes a number by the nodes' clock. If a majority stored the same one,
//!   it is the token; else the highest is written back to nodes whose vote was counted, each of which
//!   takes it only while the lock is still ours there, before anybody gets the grant.
//! - *The holder is paused.* Its validity is counted from before the request left, until the instant at
//!   which a majority may no longer keep the lock; it is told of the loss, and a fence refuses its late
//!   writes. No lock service can do more.
//!
//! - *A majority forgets a lock on which its holder still relies.* The holder is told; what other nodes have
//!   of the lock keeps others out until the time is over that the holder was promised.
//!
//! `tests/model.rs` drives the same decisions through every order of messages, expiries and renewals of
//! two attempts on three nodes, with a crash or a clock's jump, and finds the violation when a guard is
//! taken away; it says what it does not show.
//!
//! # What it still cannot do
//! - A clock that steps forward past a lease and back again before anybody calls the node goes unseen;
//!   so do wrong clocks on a majority. etcd, whose leases do not rest on clocks agreeing, is the choice
//!   where that matters.
//! - A node that has lost a lock, or was down when it was taken, is not given it again by renewals. A
//!   lock taken on a bare majority is lost with one more node: its holder is told at once, and nobody
//!   else gets it before the time is over that the holder was promised.
//! - Waiters are woken in order of their coming, but nobody is served by right: not `fair`.
//! - Only one holder per name; counted permits over a majority would be unsafe.
//!
//! # Permissions
//! On each node a user needs what `backend-redis` lists, and `+zadd +zrange +zrem +zrank +zcard`; the
//! prefix is `leasehold-redlock` by default.

pub mod clock;
pub mod token;
pub mod validity;
pub mod vote;

mod acquire;
mod backend;
mod ballot;
mod batch;
mod config;
#[cfg(test)]
mod fuzz;
mod guarantees;
mod held;
mod lost;
mod operate;
mod peer;
mod quorum;
mod release;
mod renew;
mod round;
mod scripts;
mod url;
mod wake;

pub use self::{config::RedlockBuilder, url::connect};
