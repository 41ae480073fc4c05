//! The command on real stores and real processes.
#![allow(clippy::unwrap_used)]

mod bad_input;
#[cfg(all(
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "zookeeper"
))]
mod boot_order;
#[cfg(feature = "object-store")]
mod bucket;
mod counter;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod cron;
#[cfg(all(
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "zookeeper"
))]
mod documented;
mod ending;
#[cfg(feature = "redis")]
mod failover;
#[cfg(all(
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "zookeeper"
))]
mod first_contact;
mod hand_over;
mod hold;
mod hostile;
mod log_lines;
mod loss;
mod manifests;
#[cfg(all(feature = "migrate", feature = "sqlite"))]
mod migrate;
mod naming_a_store;
#[cfg(all(feature = "etcd", feature = "mysql", feature = "postgres", feature = "redis"))]
mod nights;
mod once;
mod operate;
mod passing_through;
#[cfg(all(
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "zookeeper"
))]
mod passwords;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod readme;
mod run;
mod several;
#[cfg(feature = "redis")]
mod shared;
mod shell;
mod signal_forwarding;
mod stderr_unread;
mod support;
#[cfg(feature = "redis")]
mod two_jobs;
mod waiting_line;
mod watch;
