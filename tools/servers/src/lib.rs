//! Real servers for tests and for `leasehold-compare`: Redis (also with sentinels, and as a
//! cluster), etcd, ZooKeeper, PostgreSQL (also with replicas, and behind pgbouncer), MariaDB and S3
//! (moto's), each in a temporary folder on a free port of 127.0.0.1, and their faults.
//!
//! - `Redis::start(RedisOptions::new())` and the like start a server, and return when it answers.
//!   It ends when its value is dropped, when the test panics, and when the test process is killed;
//!   see [`process`]. Tests may run in parallel, in one process or many.
//! - Every server is a [`Server`]: pause, resume, kill, restart with or without its data.
//! - [`Proxy`] stands between a client and a server, with faults: cut, black hole, lost replies,
//!   delay, reset. It counts, so that a test can assert that its fault happened.
//! - [`Streams`] does the same for single calls of gRPC. [`SlowFlush`] and [`FullDisk`] make a
//!   server's disk slow, and full.
//! - [`Clock`] sets a server's clocks while it runs.
//!
//! A missing program is an error that names the Debian package to install, never a skipped test.

mod error;
mod etcd;
mod faults;
mod machine;
mod mariadb;
mod postgres;
pub mod process;
mod redis;
mod s3;
mod server;
mod zookeeper;

pub use self::{
    error::{KitError, Result},
    etcd::{Etcd, EtcdOptions, Member, Streams},
    faults::{
        clock_shim::{self, Clock, Offsets},
        cold_copy::ColdCopy,
        disk::{FullDisk, SlowFlush},
        proxy::{self, Change, Counters, Mode, Proxy, guard_length, marker},
    },
    machine::{
        account::Account,
        ports, programs,
        tls::{self, Certificates, ClientCertificates},
        tree::{self, is_alive},
        wait,
    },
    mariadb::{Mariadb, MariadbOptions},
    postgres::{Hostile, Pgbouncer, Postgres, PostgresOptions},
    process::{Process, Spec},
    redis::{Links, Redis, RedisCluster, RedisOptions, Sentinels},
    s3::S3,
    server::{Data, Server},
    zookeeper::{ZooKeeper, ZooKeeperMember, ZooKeeperOptions},
};
