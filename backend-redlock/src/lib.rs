//! Locks of leasehold over a quorum of independent Redis servers: Redlock, hardened.
//! Each server is Redis 7.0 or later, or Valkey 7.2 or later, as for `backend_redis`.
//!
//! A client holds a lock while a majority of *all* nodes keeps it for that client. Every operation
//! asks the nodes at once, and answers as soon as a majority has decided. A background task handles
//! the late answers: if a node granted the lock to an attempt that failed, the task releases it. If
//! a node does not answer in time, calls no longer wait for it until it has answered a probe. The
//! algorithm is antirez's Redlock. Each published objection to it has an answer here:
//!
//! - *A node restarts and has forgotten its locks.* The node is in quarantine for one longest
//!   lease. A node in quarantine does not vote.
//! - *A node's clock jumps.* Every reply carries the node's clock. If the clock may be further than
//!   the clock bound from the median, or went back, the node has no vote and its renewals do not
//!   count. The client takes twice the bound off the validity of every lease.
//! - *No fencing.* The client proposes a number by the nodes' clock. If a majority stored the same
//!   number, it is the token. Otherwise the client writes the highest number back to the nodes
//!   whose votes counted, before it returns the grant. A node accepts the number only while this
//!   client holds the lock there.
//! - *The holder is paused.* Validity counts from before the request left, and ends when a majority
//!   may no longer keep the lock. The holder learns of the loss, and a fence refuses its late
//!   writes. No lock service can do more.
//! - *A majority forgets a lock on which its holder still relies.* The holder learns of it. The
//!   other nodes keep their records of the lock, and so keep other clients out, until the validity
//!   that the holder knows is over.
//!
//! `tools/verification/protocol-models`, a crate of tests, runs the same decisions through every
//! order of messages, expiries and renewals of two attempts on three nodes, with a crash or a clock
//! that jumps. Without any one of its guards it finds a violation. It also says what it does not
//! show.
//!
//! # What it still cannot do
//! - It does not see a node's clock that steps forward past a lease, and back again, between two
//!   calls. Nor does it see wrong clocks on a majority. If that matters, use etcd: its leases do
//!   not need clocks that agree.
//! - If a node has lost a lock, or was down when the lock was taken, a renewal does not bring the
//!   lock back on that node. A lock taken on a bare majority is lost with one more node. The holder
//!   then learns of it at once, and no other client gets the lock before the validity that the
//!   holder knows is over.
//! - It is not `fair`: nodes wake waiters in the order in which they came, but another client may
//!   be faster.
//! - A name has one writer, or readers. Counted permits would be unsafe over a majority.
//!
//! # Permissions
//! On each node a user needs what `backend-redis` lists, and `+zadd +zrange +zrem +zrank +zcard`;
//! the prefix is `leasehold-redlock` by default.

#![warn(missing_debug_implementations)]

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
