//! The core of leasehold: the trait [`Backend`] that a store implements, and the client that works
//! on every store.
//!
//! Applications use the crate `leasehold`, which re-exports what they need. This crate is for
//! authors of backends. Read [`Backend`] first, then the reference backend [`Memory`].
//!
//! # The requirements
//!
//! Code, tests and docs use these names: S for safety, L for liveness.
//!
//! - **S1** Exclusion: the validity of two holders of one name never overlaps.
//! - **S2** Tokens: for one name each grant has a higher token than all grants before, whatever is
//!   lost or moved.
//! - **S3** Validity: a holder believes in its lock for the lease that the store set, counted from
//!   before the request, less a margin.
//! - **S4** Ownership: only the owner renews or releases. A release of a lock that another owner
//!   has changes nothing.
//! - **S5** No resurrection: a renewal never makes a lost lock again, and a guard that has
//!   reported its loss stays lost.
//! - **S6** Unknown outcomes: an attempt whose answer was lost, or whose caller has gone, leaves
//!   no lock behind.
//! - **S7** Records: only the holder of a lock writes its record, and the record outlives the lock.
//! - **L1** Crash: the lock of a crashed holder is free within one lease and a stated slack.
//! - **L2** Wake-up: a release wakes a waiter by push where [`Guarantees`] says so, and a poll
//!   always backs the push.
//! - **L3** Order: where [`Guarantees`] says `fair`, queue entries are served first come first
//!   served, and a dead one delays the next by a stated bound.
//! - **L4** Cost: the calls for one handoff do not grow with the number of waiters.
//! - **L5** Notice: the holder learns of a loss at the latest when its validity ends, even if the
//!   store hangs.
//! - **L6** End: `close` refuses new work, waits for calls in flight, and releases everything that
//!   is held.

#![warn(missing_debug_implementations)]

mod backend;
mod client;
mod credentials;
mod drift_margin;
mod env;
mod error;
mod fence;
#[cfg(test)]
mod fuzz;

mod guarantees;
mod human_duration;
mod log;
mod memory;
mod name;
mod observer;
mod owner;
mod plaintext;
mod sync;
mod sys;
#[cfg(any(test, feature = "test-util"))]
#[doc(hidden)]
pub mod test_util;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
mod token;
mod tunables;
mod unknown_errors;
mod url_options;

// For `impl Backend` and `impl Waiter`.
pub use async_trait::async_trait;
pub use backend::{
    Attempt, Backend, Busy, Cursor, Enqueued, Grant, Holder, Init, Listing, LockState, LossReason,
    Mode, Page, Quarantined, Record, RecordRead, RecordWrite, ReleaseOptions, ReleaseOutcome,
    Released, Renewal, Request, Signal, StoreSettings, Waiter, WriteOutcome, check_lease,
    check_record_version, check_span, check_token, whole_millis,
};
pub use client::{
    All, Any, ClientOptions, Decision, DetachedLock, Doubt, DueRun, Election, Finished, Guard,
    Guards, IfUnknown, LastRun, Latch, Leader, LeaderWord, Leadership, Lock, LockClient, Monitor,
    Once, RenewalHealth, RunState, Semaphore, StoreCheck, TryAcquire, UnknownRun, WithError, all,
    any,
};
pub use credentials::{Credentials, CredentialsProvider};
pub use drift_margin::drift_margin;
pub use env::{BoxFuture, Env, NoRuntime, SystemEnv, jittered};
pub use error::{Blocked, Error, ErrorKind};
pub use fence::{Fence, FenceError, Stale};
pub use guarantees::{Assumption, ConnectionSecurity, Guarantees, Promise, QuarantineUse};
pub use log::OncePer;
pub use memory::Memory;
pub use name::LockName;
pub use observer::{Event, EventKind, NotAcquired, Observer};
pub use owner::{OwnerId, OwnerLabel};
pub use plaintext::{PLAINTEXT, is_loopback, plaintext_refusal};
#[doc(hidden)]
pub use sync::{Mutex, RwLock};
pub use time::{Instant, StoreTime};
pub use token::FencingToken;
pub use tokio_util::sync::CancellationToken;
pub use unknown_errors::UnknownErrors;
pub use url_options::{SeenOptions, unknown_option};
