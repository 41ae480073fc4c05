//! Distributed locks with one API over many stores.
//!
//! ```no_run
//! #[tokio::main]
//! async fn main() -> Result<(), leasehold::Error> {
//!     let client = leasehold::connect("sqlite:locks.db").await?;
//!     let guard = client.lock("order-17").acquire().await?;
//!     // Whatever you write to should refuse a token lower than one that it has seen.
//!     println!("mine until lost, with token {}", guard.token());
//!     guard.release().await
//! }
//! ```
//!
//! The lock is a *lease*: it is renewed in the background while the guard lives, and it ends by
//! itself soon after its holder has crashed. Therefore a holder that was paused for longer than the
//! lease has lost it without noticing. [`Guard::lost`] and [`Guard::is_valid`] tell by the clock, and
//! [`Guard::token`] lets the protected resource refuse a late write: see [`Fence`].
//!
//! # Stores
//!
//! Each store is behind a cargo feature of the same name, and reached by a URL of that scheme:
//!
//! | feature | URL | locks out |
//! |---|---|---|
//! | `etcd` | `etcd://HOST:PORT,HOST:PORT` | clients of one etcd cluster, and `etcdctl lock` |
//! | `memory` (default) | `memory:` | tasks of one process |
//! | `migrate` | `migrate:PHASE?from=URL&to=URL` | what its stores lock out: see [`migration`] |
//! | `mysql` | `mysql://USER@HOST/DATABASE`, also `mariadb:` | clients of one MySQL or MariaDB server |
//! | `postgres` | `postgres://USER@HOST/DATABASE` | clients of one PostgreSQL server |
//! | `redis` | `redis://HOST:PORT`, `rediss://HOST:PORT`, `unix:PATH` | clients of one Redis |
//! | `redis` | `redis+sentinel://HOST:PORT,HOST:PORT/MASTER`, `redis+cluster://HOST:PORT,HOST:PORT`, `rediss+…` | clients of one Redis that fails over |
//! | `redlock` | `redlock://HOST:PORT,HOST:PORT,HOST:PORT` | clients of the same independent Redis servers |
//! | `sqlite` (default) | `sqlite:PATH` | processes of one machine |
//!
//! TLS is rustls, with the provider of cryptography that the application has installed for its process, otherwise
//! with that of the feature `tls-ring` (default) or `tls-aws-lc`. None is installed. Drivers differ in one case:
//! PostgreSQL's and MySQL's always take the feature's, but for `sslmode=verify-ca` the application's, which is an
//! error if there is none. Without either feature these two have no TLS, and the others only the application's.
//!
//! [`connect`] takes such a URL, [`Config`] one from a configuration file, and [`LockClient::new`]
//! any [`Backend`], also one that its own module's builder made.
//!
//! What a store promises, and on which assumptions, is data: [`LockClient::guarantees`].

mod config;
mod connect;
#[cfg(test)]
mod fuzz;
mod schemes;
mod url;

pub use lock_core::{
    Assumption, Backend, Blocked, Busy, ClientOptions, Cursor, Error, ErrorKind, Fence,
    FencingToken, Finished, Guarantees, Guard, Holder, Init, Link, Lock, LockClient, LockName,
    LockState, LossReason, Monitor, Outcome, OwnerId, OwnerLabel, Page, Promise, QuarantineUse,
    Quarantined, Stale, StoreSettings, TryAcquire, WithError,
};

pub use self::{
    config::Config,
    connect::{connect, connect_with, open, schema},
    schemes::store_urls,
    url::StoreUrl,
};

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
    };
}

/// From one store to another while everything runs: the backend over both, and who is how far.
pub mod migration {
    pub use lock_core::{Direction, Fleet, Member, Migration, Phase, Refusal, Step};
}

/// Locks in a PostgreSQL database, its fence, and a builder that takes a pool of yours.
#[cfg(feature = "postgres")]
pub mod postgres {
    pub use backend_sql::{
        Strategy,
        postgres::{PostgresBuilder, PostgresFence},
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

/// Locks in a SQLite file, its fence, and a builder that takes a pool of yours.
#[cfg(feature = "sqlite")]
pub mod sqlite {
    pub use backend_sql::{
        Strategy,
        sqlite::{SqliteBuilder, SqliteFence},
    };
}

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
