//! Real servers for tests and for `leasehold compare`: Redis (also with sentinels, and as a cluster), etcd, PostgreSQL (also with
//! replicas, and behind pgbouncer) and MariaDB, each in a temporary folder on a free port of
//! 127.0.0.1, and the faults that befall them.
//!
//! - A server is started by `Redis::start(RedisOptions::new())` and the like, which return once it
//!   answers. It ends when its value is dropped, when the test panics, and when the test process is
//!   killed; see [`process`]. Tests may run in parallel, in one process or many.
//! - Every server is a [`Server`]: pause, resume, kill, restart with or without its data.
//! - [`Proxy`] stands between a client and a server: cut, black hole, lost replies, delay, reset; and
//!   counts, so that a test can assert that its fault happened.
//! - [`Streams`] does so for single calls of gRPC; [`SlowFlush`] and [`FullDisk`] make its disk slow, and full.
//! - [`Clock`] sets a server's clocks while it runs.
//!
//! A missing program is an error that names the Debian package to install, never a skipped test.

mod account;
mod bus;
pub mod clock_shim;
mod cluster;
mod cold_copy;
mod error;
mod etcd;
mod mariadb;
mod pgbouncer;
pub mod ports;
mod postgres;
mod power;
pub mod process;
pub mod programs;
pub mod proxy;
mod redis;
mod sentinel;
mod server;
mod session;
mod slow_flush;
pub mod tls;
mod tracer;
pub mod tree;
pub mod wait;

pub use self::{
    account::Account,
    bus::Links,
    clock_shim::{Clock, Offsets},
    cluster::RedisCluster,
    cold_copy::ColdCopy,
    error::{KitError, Result},
    etcd::{Etcd, EtcdOptions, Member, Streams},
    mariadb::{Mariadb, MariadbOptions},
    pgbouncer::Pgbouncer,
    postgres::{Postgres, PostgresOptions},
    process::{Process, Spec},
    proxy::{Counters, Mode, Proxy},
    redis::{Redis, RedisOptions},
    sentinel::Sentinels,
    server::{Data, Server},
    slow_flush::{FullDisk, SlowFlush},
    tls::{Certificates, ClientCertificates},
    tree::is_alive,
};
