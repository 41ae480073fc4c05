//! Distributed locks: one API over SQLite, PostgreSQL, MySQL, Redis, Redlock and etcd.
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
//! A lock is a *lease*: the client renews it in the background while the [`Guard`] lives, and the store ends it soon
//! after its holder has crashed. [`Guard::lost`] resolves, and [`Lock::with`] stops your work, as soon as the lease can
//! no longer be trusted, even while the store does not answer.
//!
//! A lock alone cannot protect data: a process may be paused after it has checked its lock and before it writes. Send
//! [`Guard::token`] with each write, and let the data refuse a token lower than one that it has seen. [`Fence`] does
//! this in memory; each store but Redlock has a fence of its own in its module.
//!
//! # Where to begin
//!
//! - [`connect`] makes a [`LockClient`] from a URL, [`Config`] from a configuration file, and [`LockClient::new`] from
//!   a store that a builder of its module made. Make one client when the program starts, and clone it.
//! - [`LockClient::lock`] has the options of one lock: lease, waiting, minimum and maximum hold.
//! - Errors: [`Error::is_busy`] (another owner has the lock), [`Error::is_lost`], [`Error::is_retryable`], and
//!   [`Error::kind`] for the rest.
//! - [`LockClient::guarantees`] says what your store promises, and on which conditions. [`LockClient::inspect`],
//!   [`LockClient::list`] and [`LockClient::check`] are for operators.
//! - [`LockClient::observed_by`] tells an [`Observer`] what happens; [`Guard::renewal_failing`] warns before a loss. Spans
//!   and events for `tracing` have the target `leasehold`.
//! - [`backend`] has what a store of your own needs.
//!
//! # Features
//!
//! Each store is a feature with a URL scheme of its own. The only default is `memory`: no server, no C code, no TLS.
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
//! | `foreign` | the locks of another library: beside `redis` `redis://HOST:PORT?layout=LAYOUT`, such as Redisson's; beside `postgres` or `mysql` `postgres://…?layout=shedlock` or `mysql://…?layout=shedlock` | 1.88 |
//! | `migrate` | `migrate:PHASE?from=URL&to=URL`, from one store to another: see [`migration`] | 1.88 |
//! | `metrics` | an observer that keeps metrics, in the module of the same name | 1.88 |
//! | `tls-ring` | TLS by *ring* for the network stores among these | 1.88 |
//! | `tls-aws-lc` | TLS by AWS-LC instead; ring is used if both are chosen | 1.88 |
//! | `testing` | a store that your tests control: see [`testing`] | 1.88 |
//!
//! TLS is rustls, and no provider of cryptography is a default. A store uses the one that the application has installed
//! for its process, otherwise that of the feature. This crate installs none. Without either, a URL that asks for TLS is
//! an error that names both features. The drivers of PostgreSQL and MySQL differ: they always use the feature's
//! provider, and without one have no TLS; except that `sslmode=verify-ca` uses the application's, and is an error if
//! there is none.
//!
//! # Platforms
//!
//! Linux. The library is built and tested there, and only there. Nobody has tried it on another Unix. A holder counts its lease by
//! `CLOCK_BOOTTIME` on Linux, which goes on while the machine is suspended, and by `CLOCK_MONOTONIC` elsewhere, which
//! may stand still then: a holder that was suspended may believe for too long that it has the lock. Windows is not
//! supported: the clocks that the library reads are not there, and it does not compile.
//!
//! # Versions
//!
//! - Versions follow Semantic Versioning. While the major version is 0, the minor one is raised for an incompatible change.
//! - Types of other crates stand in this API: those of sqlx (`postgres::sqlx`, `mysql::sqlx`, `sqlite::sqlx`),
//!   of etcd-client (`etcd::etcd_client`), [`CancellationToken`] of tokio-util, and the traits of serde. Use these
//!   re-exports. A new incompatible version of one of these crates is a new minor version of this one: their major is our minor.
//! - The lowest Rust is the one that the dependencies of the chosen features need (the last column above), and at
//!   least 1.88. A newer one is needed only by a new minor version of this crate, never by a patch.
//! - Structs with public fields and enums are `#[non_exhaustive]` where they may grow, and have constructors where a
//!   caller or a backend makes them. The enums without it are complete, so that a `match` can deal with every case.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod config;
mod connect;
#[cfg(test)]
mod fuzz;
#[cfg(feature = "metrics")]
pub mod metrics;
mod schemes;
mod url;

pub use lock_core::{
    All, Any, Assumption, Backend, Blocked, Busy, CancellationToken, ClientOptions,
    ConnectionSecurity, Credentials, CredentialsProvider, Cursor, Election, Error, ErrorKind,
    Event, EventKind, Fence, FencingToken, Finished, Guarantees, Guard, Guards, Holder, Init,
    Leader, Leadership, Lock, LockClient, LockName, LockState, LossReason, Mode, Monitor,
    NotAcquired, Observer, OwnerId, OwnerLabel, Page, Promise, QuarantineUse, Quarantined,
    ReleaseOutcome, RenewalHealth, Semaphore, Stale, StoreCheck, StoreSettings, TryAcquire,
    WithError, all, any,
};

pub use self::{
    config::Config,
    connect::{connect, connect_with, open, schema},
    schemes::store_urls,
    url::StoreUrl,
};

/// All that a store of your own needs: the trait [`Backend`], its requests and answers, and the checks that all stores
/// make alike.
///
/// A client comes from it by [`LockClient::new`], or by [`LockClient::with_env`] in simulated time. The example
/// `examples/own-backend` of the repository is a whole store in one file, with the conformance suite over it.
pub mod backend {
    pub use lock_core::{
        Assumption, Attempt, Backend, Blocked, BoxFuture, Busy, ConnectionSecurity, Cursor,
        Enqueued, Env, Error, ErrorKind, FencingToken, Grant, Guarantees, Holder, Init, Instant,
        Listing, LockName, LockState, LossReason, Mode, NoRuntime, OwnerId, OwnerLabel, PLAINTEXT,
        Page, Promise, QuarantineUse, Quarantined, ReleaseOptions, ReleaseOutcome, Released,
        Renewal, Request, SeenOptions, Signal, StoreSettings, SystemEnv, Waiter, async_trait,
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

/// From one store to another while everything runs: the backend over both, and the phases of all processes.
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
    pub use backend_etcd::{
        EtcdBuilder, Fence as EtcdFence, FenceError, HeldKey as EtcdHeldKey, etcd_client,
    };
}

/// Locks in one Redis, its fence, and a builder.
#[cfg(feature = "redis")]
pub mod redis {
    pub use backend_redis::{Fence as RedisFence, FenceError, RedisBuilder};
}

/// Locks in a quorum of independent Redis servers, and a builder.
#[cfg(feature = "redlock")]
pub mod redlock {
    pub use backend_redis::RedisBuilder;
    pub use backend_redlock::RedlockBuilder;
}

/// A store under a test's control, for tests of programs that use locks. With the feature `testing`, which is for
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
#[doc = include_str!("../../docs/observability.md")]
#[doc = include_str!("../../docs/patterns.md")]
#[doc = include_str!("../../docs/readers-and-writers.md")]
#[doc = include_str!("../../docs/several-locks.md")]
struct Docs;

#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../docs/testing.md")]
struct TestingDocs;

#[cfg(all(doctest, feature = "redis"))]
#[doc = include_str!("../../docs/credentials.md")]
struct CredentialsDocs;
