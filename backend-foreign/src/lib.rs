//! Locks that are those of another library: a client of leasehold and a client of that library exclude each other.
//!
//! The lock itself stands where the other library keeps it, as the other library reads it. Beside it stand records of
//! our own: fencing tokens, labels, tombstones of given-up attempts, and the epoch record with the quarantine.
//! Each attempt and each release is one Lua script over all of them.
//!
//! # Layouts
//! `redis://HOST?layout=…`, with all options of a `redis://` URL, on one server without failover:
//!
//! | layout | the lock of `NAME` | woken by |
//! |---|---|---|
//! | `redisson` | hash `NAME` with a field `owner:1` | channel `redisson_lock__channel:{NAME}` |
//! | `redis-py`, `redsync`, `node-redlock` | string `NAME` | nothing: waiters poll |
//! | `python-redis-lock` | string `lock:NAME` | list `lock-signal:NAME` |
//! | `spring`, with `registry=KEY` | string `KEY:NAME` | channel `KEY-channel:KEY:NAME` |
//! | `shedlock`, with `env=default` | string `job-lock:default:NAME` | nothing: its jobs do not wait |
//! | `string`, with `key=TEMPLATE` | string `TEMPLATE`, in which `{name}` stands for `NAME` | nothing |
//!
//! # What it cannot share
//! A lock without a lease (PostgreSQL's advisory locks, MySQL's `GET_LOCK`): a holder could not know by its clock when
//! it has lost the lock. Redisson's read/write locks and semaphores: another kind of record. A multi-node Redlock of
//! another library: a minority of nodes that differ cannot be told from a lock.

#[cfg(feature = "redis")]
mod redis;
mod tunables;

#[cfg(feature = "redis")]
pub use self::redis::connect;
