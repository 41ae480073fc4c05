//! Locks in the layout of another library: a client of leasehold and a client of that library
//! exclude each other.
//!
//! The lock itself is where the other library keeps it, in the form that the other library reads.
//! Leasehold adds its own records: fencing tokens, labels, tombstones of abandoned attempts, and
//! the epoch record with the quarantine. Each attempt and each release is one Lua script, or one
//! SQL statement, over all of these records.
//!
//! In this crate, *foreign* means "of the other library": a foreign client, a foreign holder.
//!
//! # Layouts
//! `redis://HOST?layout=…`, with all options of a `redis://` URL, on one server without failover:
//!
//! | layout | the lock of `NAME` | woken by |
//! |---|---|---|
//! | `redisson` | hash `NAME` with a field `owner:1` | channel `redisson_lock__channel:{NAME}` |
//! | `redis-py`, `redsync`, `node-redlock` | string `NAME` | nothing: waiters poll |
//! | `python-redis-lock` | string `lock:NAME` | list `lock-signal:NAME` |
//! | `spring`, with `registry=KEY` | string `KEY:NAME` | channels `KEY-channel:KEY:NAME` and `KEY-channel` |
//! | `shedlock`, with `env=default` | string `job-lock:default:NAME` | nothing: ShedLock's jobs do not wait |
//! | `string`, with `key=TEMPLATE` | string `TEMPLATE`, in which `{name}` is replaced by `NAME` | nothing |
//!
//! `postgres://HOST/DATABASE?layout=shedlock` and `mysql://HOST/DATABASE?layout=shedlock`, with the
//! options of such a URL except `strategy`, `table_prefix` and `listen`: the lock is the row `NAME`
//! of ShedLock's table. The option `table=shedlock` names this table. `init` also makes a companion
//! table, `shedlock_leasehold`, and a table of settings, `shedlock_leasehold_store`. Waiters poll.
//! All clients of ShedLock need `usingDbTime()`: without it each writes the time of its own clock
//! and time zone.
//!
//! # What it cannot share
//! - Locks without a lease, such as PostgreSQL's advisory locks and MySQL's `GET_LOCK`: their
//!   holder could not know by its clock when it has lost the lock.
//! - Redisson's read/write locks and semaphores: their records have another form.
//! - A Redlock of another library over several nodes: on a minority of nodes, a record with another
//!   value cannot be distinguished from a lock.

#![warn(missing_debug_implementations)]

#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
mod options;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
mod record;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod sql;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
mod tunables;

use std::sync::Arc;

use lock_core::{Backend, Error, ErrorKind};

/// Opens a store of another library's locks, by a URL of one of the forms above.
///
/// # Errors
/// As for a store of leasehold in the same server; `InvalidInput` for an unknown layout, or for a
/// topology in which locks cannot be shared; `Unsupported` for a server whose cargo feature is off.
pub async fn connect(url: &str) -> Result<Arc<dyn Backend>, Error> {
    let opened = match url.split(':').next() {
        Some("postgres" | "postgresql") => postgres(url).await,
        Some("mysql" | "mariadb") => mysql(url).await,
        _ => redis(url).await,
    };
    opened.map_err(|error| error.at("foreign", "connect"))
}

/// The SQL that creates the tables for a URL, including ShedLock's own. Does not connect.
///
/// # Errors
/// `InvalidInput` as [`connect`]; `Unsupported` if the URL is not that of an SQL database.
pub fn schema(url: &str) -> Result<String, Error> {
    let made = match url.split(':').next() {
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => self::sql::postgres_schema(url),
        #[cfg(feature = "mysql")]
        Some("mysql" | "mariadb") => self::sql::mysql_schema(url),
        _ => {
            let message = "the store is no SQL database, and has no schema";
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    };
    made.map_err(|error| error.at("foreign", "schema"))
}

/// Opens each kind of server, or returns an error if its feature is off.
macro_rules! servers {
    ($($server:ident $feature:literal $open:path;)*) => {$(
        #[cfg(feature = $feature)]
        async fn $server(url: &str) -> Result<Arc<dyn Backend>, Error> {
            $open(url).await
        }

        #[cfg(not(feature = $feature))]
        async fn $server(_: &str) -> Result<Arc<dyn Backend>, Error> {
            let message = concat!(
                "this build shares no locks in this kind of server: add the cargo feature \"", $feature, "\" of leasehold"
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    )*};
}

servers! {
    postgres "postgres" self::sql::postgres;
    mysql "mysql" self::sql::mysql;
    redis "redis" self::redis::connect;
}
