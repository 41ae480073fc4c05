//! Tests on real servers, by topic. The suite of all backends is in `conformance.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod batch;
mod broken;
mod client;
mod close;
mod cluster;
mod cluster_moves;
mod cluster_partition;
mod credentials;
mod cuts;
mod faults;
mod fence;
mod mistaken;
mod observed;
mod out_of_memory;
mod processes;
mod redis;
mod sentinel_failover;
mod sentinel_partition;
mod settings;
mod support;
mod tls;
mod unreadable;
mod verification;
mod versions;
mod wait;
