//! The core of leasehold: the trait [`Backend`] that a store implements, and the client that works on every store.
//!
//! Applications use the crate `leasehold`, which re-exports what they need. This crate is for authors of backends. Read
//! [`Backend`] first, then the reference backend [`Memory`].
//!
//! Requirements have short names in these docs: S1 to S6 are about safety, L1 to L6 about liveness.

mod backend;
mod client;
mod credentials;
mod env;
mod error;
mod fence;
#[cfg(test)]
mod fuzz;

mod guarantees;
mod log;
mod memory;
mod name;
mod observer;
mod owner;
mod plaintext;
mod sync;
#[cfg(any(test, feature = "test-util"))]
#[doc(hidden)]
pub mod test_util;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
mod token;
mod tunables;
mod url_options;

// For `impl Backend` and `impl Waiter`.
pub use async_trait::async_trait;
pub use backend::{
    Attempt, Backend, Busy, Cursor, Enqueued, Grant, Holder, Init, Listing, LockState, LossReason,
    Mode, Page, Quarantined, ReleaseOptions, ReleaseOutcome, Released, Renewal, Request, Signal,
    StoreSettings, Waiter, check_lease, check_record_version, check_span, check_token,
    whole_millis,
};
pub use client::{
    All, Any, ClientOptions, Election, Finished, Guard, Guards, Leader, Leadership, Lock,
    LockClient, Monitor, RenewalHealth, Semaphore, StoreCheck, TryAcquire, WithError, all, any,
};
pub use credentials::{Credentials, CredentialsProvider};
pub use env::{BoxFuture, Env, NoRuntime, SystemEnv, jittered};
pub use error::{Blocked, Error, ErrorKind};
pub use fence::{Fence, Stale};
pub use guarantees::{
    Assumption, ConnectionSecurity, Guarantees, Promise, QuarantineUse, drift_margin,
};
pub use log::OncePer;
pub use memory::Memory;
pub use name::LockName;
pub use observer::{Event, EventKind, NotAcquired, Observer};
pub use owner::{OwnerId, OwnerLabel};
pub use plaintext::{PLAINTEXT, is_loopback, plaintext_refusal};
#[doc(hidden)]
pub use sync::{Mutex, RwLock};
pub use time::Instant;
pub use token::FencingToken;
pub use tokio_util::sync::CancellationToken;
pub use url_options::{SeenOptions, unknown_option};
