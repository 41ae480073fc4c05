//! The contract of leasehold.

mod backend;
mod client;
mod env;
mod error;
mod fence;
#[cfg(test)]
mod fuzz;
mod given;
mod guarantees;
mod memory;
mod migration;
mod name;
mod owner;
mod plaintext;
mod time;
mod token;

pub use backend::{
    Attempt, Backend, Busy, Cursor, Enqueued, Grant, Holder, Init, LockState, LossReason, Mode,
    Outcome, Page, Quarantined, Release, Released, Renewal, Request, Signal, StoreSettings, Turn,
    check_lease, check_token,
};
pub use client::{
    ClientOptions, Finished, Guard, Lock, LockClient, Monitor, TryAcquire, WithError,
};
pub use env::{BoxFuture, Env, NoRuntime, SystemEnv, jittered};
pub use error::{Blocked, Error, ErrorKind};
pub use fence::{Fence, Stale};
pub use given::Given;
pub use guarantees::{Assumption, Guarantees, Link, Promise, QuarantineUse, drift_margin};
pub use memory::Memory;
pub use migration::{Direction, Fleet, Member, Migration, Phase, Refusal, Step};
pub use name::LockName;
pub use owner::{OwnerId, OwnerLabel};
pub use plaintext::{PLAINTEXT, is_loopback, plaintext_refusal};
pub use time::Instant;
pub use token::FencingToken;
