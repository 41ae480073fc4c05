//! Locks of leasehold over a quorum of independent Redis servers: Redlock, hardened.
//! Each server is Redis 7.0 or later, or Valkey 7.2 or later, as for `backend_redis`.
//!
//! A client holds a lock while a majority of *all* nodes keeps it for that client. Every operation asks the nodes
//! at once and answers as soon as a majority is certain either way. Late answers are dealt with in the background:
//! what they gave to a failed attempt is taken back. If a node does not answer in time, no call waits for it until
//! it has answered a probe. The algorithm is antirez's Redlock. This is done about each published objection to it:
//!
//! - *A node restarts and has forgotten its locks.* It is in quarantine for one longest lease, and a node in
//!   quarantine does not vote.
//! - *A node's clock jumps.* Every reply carries the node's clock. If that may be further than the clock bound from
//!   the median, or went back, the node has no vote and its renewals do not count. Twice the bound is taken off
//!   every lease's validity.
//! - *No fencing.* The client proposes a number by the nodes' clock. If a majority stored the same number, it is the
//!   token. Otherwise the highest is written back to nodes whose vote was counted, before the grant is returned. A
//!   node takes it only while the lock is still the client's there.
//! - *The holder is paused.* Its validity counts from before the request left, until the instant at which a majority
//!   may no longer keep the lock. The holder is told of the loss, and a fence refuses its late writes. No lock
//!   service can do more.
//! - *A majority forgets a lock on which its holder still relies.* The holder is told. What other nodes have of the
//!   lock keeps others out until the time is over that the holder was promised.
//!
//! `redlock-model`, a crate of tests, drives the same decisions through every order of messages, expiries and renewals of
//! two attempts on three nodes, with a crash or a clock's jump, and finds the violation when a guard is
//! taken away; it says what it does not show.
//!
//! # What it still cannot do
//! - It does not see a clock that steps forward past a lease and back again between two calls of the node, nor wrong
//!   clocks on a majority. Where that matters, use etcd, whose leases do not rest on clocks that agree.
//! - If a node has lost a lock, or was down when the lock was taken, renewals do not give it the lock again. A lock
//!   taken on a bare majority is lost with one more node: its holder is told at once, and no other client gets the
//!   lock before the time is over that the holder was promised.
//! - It is not `fair`: waiters are called in the order in which they came, but another client may be faster.
//! - One writer per name, or readers; counted permits over a majority would be unsafe.
//!
//! # Permissions
//! On each node a user needs what `backend-redis` lists, and `+zadd +zrange +zrem +zrank +zcard`; the
//! prefix is `leasehold-redlock` by default.

// The support of the tests, which the unit tests share, names the crate from outside.
#[cfg(test)]
extern crate self as backend_redlock;

pub mod protocol;

mod backend;
mod batch;
mod builder;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
#[path = "../tests/inside/mod.rs"]
mod inside;
mod quorum;
mod scripts;
mod steps;
mod tunables;
mod waiting;

pub use self::builder::{RedlockBuilder, connect};
