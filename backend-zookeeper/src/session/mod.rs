//! Sessions: one per client and lease length, for all its locks.
//!
//! # What a session proves
//!
//! ZooKeeper's leader ends sessions. A follower tells it with each of its pings, every half tick,
//! which sessions were used. So a request that a follower has answered may be unknown to the
//! leader, unless a *write* was answered, too, that was sent one and a half ticks after that
//! answer: writes pass through the leader, and on the same connection as the reports. A new session
//! and one that moves to another server are reported to the leader at once. An election gives each
//! session its whole time again.
//!
//! So the validity of all grants of a session counts from the last request that such a later write
//! confirms. The session lasts longer than the lease by a third. If it writes in each third of the
//! lease, a lock is valid for its whole lease after a renewal.

pub(crate) mod clock;
pub(crate) mod connect;
pub(crate) mod keeper;
mod own;
mod pool;
mod requests;
mod runtime;
mod session;
#[cfg_attr(not(any(feature = "tls-ring", feature = "tls-aws-lc")), path = "no_tls.rs")]
mod tls;
mod touches;

pub(crate) use self::{
    connect::{Access, Connect},
    own::epoch_of,
    pool::Sessions,
    requests::{Read, ReadResult, Write, WriteResult},
    runtime::in_background,
    session::{Ending, Session},
    tls::Tls,
};
