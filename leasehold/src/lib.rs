//! Distributed locks: one API over SQLite, PostgreSQL, MySQL, Redis, Redlock, etcd, ZooKeeper and
//! object stores.
//!
//! ```no_run
//! #[tokio::main]
//! async fn main() -> Result<(), leasehold::Error> {
//!     let client = leasehold::connect("redis://localhost").await?; // with the feature `redis`
//!     let guard = client.lock("order-17").acquire().await?;
//!     println!("locked, with fencing token {}", guard.token());
//!     guard.release().await
//! }
//! ```
//!
//! A lock is a *lease*: the client renews it in the background while the [`Guard`] exists, and the
//! store ends it soon after its holder has crashed. When the holder can no longer rely on the
//! lease, [`Guard::lost`] returns and [`Lock::with`] stops your work, even if the store does not
//! answer.
//!
//! A lock alone cannot protect data: a process may be paused after it has checked its lock and
//! before it writes. Send [`Guard::token`] with each write, and let the data refuse a token lower
//! than one that it has seen. [`Fence`] does this in memory. Each store except Redlock and object
//! stores has its own fence in its module.
//!
//! # Where to begin
//!
//! - [`connect`] makes a [`LockClient`] from a URL, [`Config`] from a configuration file, and
//!   [`LockClient::new`] from a store that you made with a builder. Make one client when the
//!   program starts, and clone it.
//! - [`LockClient::lock`] returns a [`Lock`] with the options of one acquire: lease, wait, minimum
//!   and maximum hold. [`Lock::once_per`] runs a job once a day, say, on whichever machine.
//! - Errors: [`Error::is_busy`] (another owner has the lock), [`Error::is_lost`],
//!   [`Error::is_retryable`], and [`Error::kind`] for the rest.
//! - [`LockClient::guarantees`] says what your store promises, and under which assumptions.
//!   [`LockClient::inspect`], [`LockClient::list`] and [`LockClient::check`] are for operators.
//! - [`LockClient::observed_by`] sends events to an [`Observer`]. [`Guard::renewal_failing`] warns
//!   before a loss. Spans and events for `tracing` have the target `leasehold`.
//! - [`backend`] has what you need for your own store.
//!
//! # Features
//!
//! Each store is a feature with its own URL scheme. The only default is `memory`: no server, no C
//! code, no TLS.
//!
//! | feature | brings | Rust |
//! |---|---|---|
//! | `memory` (default) | `memory:` for the tasks of one process, and for tests | 1.88 |
//! | `sqlite` | `sqlite:PATH` for the processes of one machine; compiles SQLite's C code | 1.94 |
//! | `postgres` | `postgres://USER@HOST/DATABASE` for the clients of a PostgreSQL server | 1.94 |
//! | `mysql` | `mysql://USER@HOST/DATABASE`, also `mariadb:`, for the clients of a MySQL or MariaDB server | 1.94 |
//! | `redis` | `redis://HOST:PORT`, `rediss:`, `unix:PATH`; `redis+sentinel:`, `redis+cluster:` and `rediss+…` for a Redis that fails over | 1.88 |
//! | `redlock` | `redlock://HOST:PORT,HOST:PORT,HOST:PORT`, also `redlocks:`, for the clients of the same independent Redis servers | 1.88 |
//! | `etcd` | `etcd://HOST:PORT,HOST:PORT` for the clients of an etcd cluster, and `etcdctl lock` | 1.88 |
//! | `zookeeper` | `zookeeper://HOST:PORT,HOST:PORT/PREFIX` for the clients of a ZooKeeper ensemble, and Curator | 1.88 |
//! | `object-store` | `s3://BUCKET/PREFIX`, `gs:`, `az:` for the clients of a bucket: S3 and servers that speak its protocol, Google Cloud Storage, Azure | 1.88 |
//! | `foreign` | the locks of another library: beside `redis` `redis://HOST:PORT?layout=LAYOUT`, such as Redisson's; beside `postgres` or `mysql` `postgres://…?layout=shedlock` or `mysql://…?layout=shedlock` | 1.88 |
//! | `migrate` | `migrate:PHASE?from=URL&to=URL`, from one store to another: see [`migration`] | 1.88 |
//! | `blocking` | calls that wait on the caller's thread, for programs without async code: see the module of the same name | 1.88 |
//! | `metrics` | an observer that keeps metrics, in the module of the same name | 1.88 |
//! | `tls-ring` | TLS by *ring* for the network stores among these | 1.88 |
//! | `tls-aws-lc` | TLS by AWS-LC instead; ring is used if both are chosen | 1.88 |
//! | `testing` | a store that your tests control: see [`testing`] | 1.88 |
//!
//! TLS is rustls. There is no default provider of cryptography. A store uses the provider that the
//! application has installed for its process, otherwise the one of the feature; this crate installs
//! none. Without either, a URL that asks for TLS is an error that names both features. The drivers
//! of PostgreSQL and MySQL differ: they always use the feature's provider, and have no TLS without
//! one. Only `sslmode=verify-ca` uses the application's provider, and is an error if there is none.
//! That of ZooKeeper has no TLS without a feature, builds AWS-LC with either, and knows only the
//! provider of the process: where there is none, a URL with `ca` installs that of the feature.
//!
//! # Platforms
//!
//! Linux: tested. Windows: built with mingw, and tested under wine. macOS: compiled only. A holder
//! counts its lease by a clock that also counts while the machine is suspended: `CLOCK_BOOTTIME` on
//! Linux, `CLOCK_MONOTONIC` on macOS, `QueryPerformanceCounter` on Windows. On another Unix
//! `CLOCK_MONOTONIC` may stop then, so that a holder may believe for too long that it has the lock.
//! On Windows there is no `unix:PATH`, and waiters of SQLite poll. docs/systems.md has more.
//!
//! # Versions
//!
//! - Versions follow Semantic Versioning. While the major version is 0, an incompatible change
//!   raises the minor version.
//! - This API contains types of other crates: of sqlx (`postgres::sqlx`, `mysql::sqlx`,
//!   `sqlite::sqlx`), of etcd-client (`etcd::etcd_client`), [`CancellationToken`] of tokio-util,
//!   and the traits of serde. Use these re-exports. A new incompatible version of one of these
//!   crates needs a new minor version of this crate.
//! - The lowest Rust version is the one that the dependencies of the chosen features need (the last
//!   column above), and at least 1.88. Only a new minor version of this crate raises it, never a
//!   patch.
//! - Enums, and structs with public fields, are `#[non_exhaustive]` if they may grow. They have
//!   constructors if a caller or a backend makes them. The other enums are complete, so that a
//!   `match` can handle every case.

#![warn(missing_debug_implementations)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "blocking")]
pub mod blocking;
mod config;
mod connect;
#[cfg(test)]
mod fuzz;
mod met;
#[cfg(feature = "metrics")]
pub mod metrics;
mod schemes;
mod url;

pub use lock_core::{
    All, Any, Assumption, Backend, Blocked, Busy, CancellationToken, ClientOptions,
    ConnectionSecurity, Credentials, CredentialsProvider, Cursor, Decision, DetachedLock, Doubt,
    DueRun, Election, Error, ErrorKind, Event, EventKind, Fence, FenceError, FencingToken,
    Finished, Guarantees, Guard, Guards, Holder, IfUnknown, Init, LastRun, Latch, Leader,
    LeaderWord, Leadership, Lock, LockClient, LockName, LockState, LossReason, Mode, Monitor,
    NotAcquired, Observer, Once, OwnerId, OwnerLabel, Page, Promise, QuarantineUse, Quarantined,
    Record, RecordRead, RecordWrite, ReleaseOutcome, RenewalHealth, RunState, Semaphore, Stale,
    StoreCheck, StoreSettings, StoreTime, TryAcquire, UnknownRun, WithError, all, any,
};

pub use self::{
    config::Config,
    connect::{connect, connect_with, connect_within, open, open_for_init, open_within, schema},
    schemes::store_urls,
    url::StoreUrl,
};

/// What you need for your own store: the trait [`Backend`], its requests and answers, and the
/// checks that all backends share.
///
/// [`LockClient::new`] makes a client of your store, [`LockClient::with_env`] one in simulated
/// time. The example `examples/own-backend` of the repository is a complete store in one file, and
/// runs the conformance suite.
pub mod backend {
    pub use lock_core::{
        Assumption, Attempt, Backend, Blocked, BoxFuture, Busy, ConnectionSecurity, Cursor,
        Enqueued, Env, Error, ErrorKind, FencingToken, Grant, Guarantees, Holder, Init, Instant,
        Listing, LockName, LockState, LossReason, Mode, NoRuntime, OncePer, OwnerId, OwnerLabel,
        PLAINTEXT, Page, Promise, QuarantineUse, Quarantined, Record, RecordRead, RecordWrite,
        ReleaseOptions, ReleaseOutcome, Released, Renewal, Request, SeenOptions, Signal,
        StoreSettings, StoreTime, SystemEnv, UnknownErrors, Waiter, WriteOutcome, async_trait,
        check_lease, check_record_version, check_span, check_token, drift_margin, is_loopback,
        jittered, plaintext_refusal, unknown_option, whole_millis,
    };
}

/// Locks in this process's memory: for tests, and for tasks of one process.
#[cfg(feature = "memory")]
pub mod memory {
    pub use lock_core::Memory;
}

/// Locks in a MySQL or MariaDB database, its fence, and a builder that takes a pool of yours.
#[cfg(feature = "mysql")]
pub mod mysql {
    pub use backend_sql::{
        Strategy,
        mysql::{MysqlBuilder, MysqlFence},
        sqlx,
    };
}

/// A move from one store to another while all processes run: the backend over both stores, and the
/// phases of all processes.
#[cfg(feature = "migrate")]
pub mod migration {
    pub use backend_migration::{Direction, Fleet, Member, Migration, Phase, Refusal, Step};
}

/// Locks in a PostgreSQL database, its fence, and a builder that takes a pool of yours.
#[cfg(feature = "postgres")]
pub mod postgres {
    pub use backend_sql::{
        Strategy,
        postgres::{PostgresBuilder, PostgresFence},
        sqlx,
    };
}

/// Locks in an etcd cluster, its fence, and a builder.
#[cfg(feature = "etcd")]
pub mod etcd {
    pub use backend_etcd::{EtcdBuilder, Fence as EtcdFence, HeldKey as EtcdHeldKey, etcd_client};
}

/// Locks in ZooKeeper, its fence, and a builder.
#[cfg(feature = "zookeeper")]
pub mod zookeeper {
    pub use backend_zookeeper::{Fence as ZooKeeperFence, ZooKeeperBuilder, zookeeper_client};
}

/// Locks in a bucket with credentials of your program, and over a store of yours that compares and
/// swaps.
#[cfg(feature = "object-store")]
pub mod object_store {
    pub use backend_object_store::{
        cas::{CasBackend, CasOptions, CasStore, Object, Put, Version},
        connect_with,
    };
}

/// Locks in one Redis, its fence, and a builder.
#[cfg(feature = "redis")]
pub mod redis {
    pub use backend_redis::{Fence as RedisFence, RedisBuilder};
}

/// Locks in a quorum of independent Redis servers, and a builder.
#[cfg(feature = "redlock")]
pub mod redlock {
    pub use backend_redis::RedisBuilder;
    pub use backend_redlock::RedlockBuilder;
}

/// A store that a test controls, for tests of programs that use locks. The feature `testing` is for
/// `[dev-dependencies]`.
#[cfg(feature = "testing")]
pub mod testing {
    pub use lock_core::testing::{Operation, TestStore};
}

/// Locks in a SQLite file, its fence, and a builder that takes a pool of yours.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    pub use backend_sql::{
        Strategy,
        sqlite::{SqliteBuilder, SqliteFence},
        sqlx,
    };
}

/// The examples of the README and of the docs compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../docs/hand-over.md")]
#[doc = include_str!("../../docs/latch.md")]
#[doc = include_str!("../../docs/observability.md")]
#[doc = include_str!("../../docs/patterns.md")]
#[doc = include_str!("../../docs/readers-and-writers.md")]
#[doc = include_str!("../../docs/record.md")]
#[doc = include_str!("../../docs/several-locks.md")]
struct Docs;

#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../docs/testing.md")]
struct TestingDocs;

#[cfg(all(doctest, feature = "redis"))]
#[doc = include_str!("../../docs/credentials.md")]
struct CredentialsDocs;
